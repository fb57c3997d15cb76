"""Coverage-guided fuzzing, from the seeds in `corpus/` and what earlier runs have found.

    python -m tests.fuzz upstream|edge [libFuzzer's options]    what is found on the way goes to .fuzz/TARGET/
    python -m tests.fuzz upstream|edge keep                     the least of it that reaches as much goes to corpus/

A run begins with what was kept. Only `keep` changes the repository: one file for each target, replayed by the tests.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["warmroute.gateway", "uvicorn.protocols.http"]):
    from tests.fuzz import edge, kept, upstream

MOST_BYTES = 2048
"""Of an input: nothing in a parser depends on more, but for limits that have tests of their own."""


def main() -> None:
    """Run one target until its time is over or it has found something, or keep what it has found."""
    target, *options = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    found = Path(".fuzz") / target
    found.mkdir(parents=True, exist_ok=True)
    kept.unpack(target, found)
    if options == ["keep"]:
        return keep(target, found)
    check = {"upstream": lambda: upstream.check, "edge": lambda: partial(edge.check, edge=edge.Edge())}[target]()
    if not any(option.startswith("-merge") for option in options):
        options += [f"-artifact_prefix={found}/", str(found), str(kept.CORPUS / target)]
    # libFuzzer runs this line again for each part of a merge.
    atheris.Setup([f"{sys.executable} -m tests.fuzz {target}", f"-max_len={MOST_BYTES}", *options], check)
    atheris.Fuzz()


def keep(target: str, found: Path) -> None:
    """Minimise what was found beyond the seeds, and write it to the repository."""
    with TemporaryDirectory() as least:
        merge = [sys.executable, "-m", "tests.fuzz", target, "-merge=1", least, str(kept.CORPUS / target), str(found)]
        subprocess.run(merge, check=True)
        kept.pack(target, [path.read_bytes() for path in Path(least).iterdir()])


main()
