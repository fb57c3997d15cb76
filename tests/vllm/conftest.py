"""Where the real engines come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.processes import free_port
from tests.vllm.engines import Kit, running_engines
from tests.vllm.pairs import Pair

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


@pytest.fixture(scope="module")
def engines(kit: Kit) -> Iterator[list[str]]:
    """Two real vLLM engines on loopback, by URL."""
    arguments = ("--num-gpu-blocks-override", str(CACHE_BLOCKS), "--max-model-len", "4096")
    with running_engines(kit, [arguments] * ENGINES) as running:
        yield [engine.url for engine in running]


@pytest.fixture(scope="module")
def pair(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A prefill and a decode engine that have worked before."""
    producer, consumer = (("--pd-role", role, str(free_port())) for role in ("producer", "consumer"))
    with running_engines(kit, [producer, consumer]) as (prefill, decode):
        pair = Pair(prefill, decode)
        pair.warm_up(tmp_path_factory.mktemp("pair") / "router.log")
        yield pair
