"""Where the real engines come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.vllm.engines import Kit, running_engines

KIT = "VLLM_KIT"
DIRECTORY = "VLLM_DIR"

ENGINES = 2
CACHE_BLOCKS = 300
"""Of 32 tokens. All sessions together need about 520: one engine cannot hold them, both together can."""


@pytest.fixture(scope="session")
def kit(request: pytest.FixtureRequest) -> Kit:
    """The kit by environment variables. Without them the tests are skipped, or fail if they were asked for by mark."""
    missing = [name for name in (KIT, DIRECTORY) if not os.environ.get(name)]
    if missing:
        reason = (
            f"{' and '.join(missing)} not set: the directory of engine.sh ({KIT}), what install.sh made ({DIRECTORY})"
        )
        if request.config.option.markexpr == "vllm":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    script = Path(os.environ[KIT], "engine.sh").resolve(strict=True)
    return Kit(script, Path(os.environ[DIRECTORY]).resolve(strict=True))


@pytest.fixture(scope="session")
def engines(kit: Kit) -> Iterator[list[str]]:
    """Two real vLLM engines on loopback, by URL."""
    arguments = ("--num-gpu-blocks-override", str(CACHE_BLOCKS), "--max-model-len", "4096")
    with running_engines(kit, ENGINES, arguments) as urls:
        yield urls
