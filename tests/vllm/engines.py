"""Real engines and a router as processes. Engines are started and stopped by the kit's engine.sh, by nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import clean_environment, fetch, free_port

START_SECONDS = 240
"""Two at once need half a minute on an idle machine with two cores."""
ROUTER_START_SECONDS = 20


@dataclass(frozen=True)
class Kit:
    """engine.sh, and the directory that it runs engines in."""

    script: Path
    directory: Path

    def call(self, command: str, name: str, port: int, *arguments: str) -> None:
        """Run engine.sh. Raises CalledProcessError with its output for any other exit code than 0."""
        argv = [str(self.script), command, str(self.directory), name, str(port), *arguments]
        # The engine inherits the output streams, so they must not be pipes that somebody reads to the end.
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


@contextmanager
def running_engines(kit: Kit, count: int, arguments: Sequence[str]) -> Iterator[list[str]]:
    """So many engines; yields their URLs."""
    engines = [(f"warmroute-test-{number}", free_port()) for number in range(count)]
    try:
        for name, port in engines:
            kit.call("start", name, port, *arguments)
        for name, port in engines:
            kit.call("wait", name, port, str(START_SECONDS))
        yield [f"http://127.0.0.1:{port}" for _, port in engines]
    finally:
        for name, port in engines:
            kit.call("stop", name, port)


@contextmanager
def running_router(workers: Sequence[str], policy: str, log: Path) -> Iterator[str]:
    """`warmroute serve` in front of the workers; yields its URL once all of them are in use."""
    port = free_port()
    flags = [flag for worker in workers for flag in ("--worker", worker)]
    options = ["--host", "127.0.0.1", "--port", str(port), "--policy", policy]
    argv = [sys.executable, "-m", "warmroute", "serve", *options, *flags]
    with log.open("wb") as out, subprocess.Popen(argv, env=clean_environment(), stdout=out, stderr=out) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _await_workers(url, len(workers), log)
            yield url
        finally:
            process.terminate()
        assert process.wait(15) == 0, log.read_text()


def _await_workers(url: str, count: int, log: Path) -> None:
    deadline = time.monotonic() + ROUTER_START_SECONDS
    while (fetch(f"{url}/workers") or b"").count(b'"state":"healthy"') < count:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@dataclass(frozen=True)
class CacheUse:
    """Tokens that engines looked up in their prefix caches, and those that they found, since they started."""

    queries: float
    hits: float

    @classmethod
    def of(cls, engines: Sequence[str]) -> CacheUse:
        """The sum over the engines, from their own metrics."""
        pages = [metrics_page(engine) for engine in engines]
        queries, hits = (
            sum(sample(page, f"vllm:prefix_cache_{name}_total") for page in pages) for name in ("queries", "hits")
        )
        return cls(queries, hits)

    def share_since(self, before: CacheUse) -> float:
        """The cached share of the tokens looked up since then."""
        return (self.hits - before.hits) / (self.queries - before.queries)


def metrics_page(url: str) -> str:
    """The metrics of an engine or a router."""
    page = fetch(f"{url}/metrics")
    assert page is not None, f"no metrics at {url}"
    return page.decode()


def sample(page: str, family: str) -> float:
    """The sum of a family's samples."""
    values = re.findall(rf"^{re.escape(family)}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)
    assert values, f"no {family}"
    return sum(map(float, values))
