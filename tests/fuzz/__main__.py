"""`python -m tests.fuzz upstream|edge [libFuzzer's options]`: coverage-guided, from the seeds in `corpus/`.

What libFuzzer finds on its way is kept in `.fuzz/<target>/`, which is not in the repository.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["warmroute.gateway", "uvicorn.protocols.http"]):
    from tests.fuzz import edge, upstream

_SEEDS = Path(__file__).parent / "corpus"


def main() -> None:
    """Run one target until its time is over or it has found something."""
    target = sys.argv.pop(1)
    logging.disable(logging.CRITICAL)
    found = Path(".fuzz") / target
    found.mkdir(parents=True, exist_ok=True)
    check = {"upstream": lambda: upstream.check, "edge": lambda: partial(edge.check, edge=edge.Edge())}[target]()
    atheris.Setup([*sys.argv, "-max_len=2048", f"-artifact_prefix={found}/", str(found), str(_SEEDS / target)], check)
    atheris.Fuzz()


main()
