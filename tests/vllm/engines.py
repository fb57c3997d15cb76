"""Real engines and a router as processes. Engines are started and stopped by the kit's engine.sh, by nothing else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import clean_environment, fetch, free_port

START_SECONDS = 240
"""Two at once need half a minute on an idle machine with two cores."""
ROUTER_START_SECONDS = 120
"""A second, where nothing else runs."""
METRICS_SECONDS = 10.0


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


@dataclass(frozen=True)
class Engine:
    """One engine of the kit."""

    kit: Kit
    name: str
    port: int

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        """Send it to the engine, all of it. engine.sh makes the engine a process group of its own."""
        os.killpg(self._leader, number)

    def waits(self) -> dict[str, float]:
        """Seconds that each of its threads has waited for a core since it started.

        Source: /proc/PID/task/TID/schedstat, second field, in nanoseconds (Documentation/scheduler/sched-stats).
        """
        waits = {}
        for path in Path("/proc").glob("[0-9]*/task/*/schedstat"):
            with suppress(OSError):
                if os.getpgid(int(path.parts[2])) == self._leader:
                    waits[path.parts[4]] = int(path.read_text().split()[1]) / 1e9
        return waits

    @property
    def _leader(self) -> int:
        return int((self.kit.directory / "run" / f"{self.name}.pid").read_text().split()[0])


@contextmanager
def running_engines(kit: Kit, arguments: Sequence[Sequence[str]]) -> Iterator[list[Engine]]:
    """One engine for each list of arguments."""
    # Two runs may share a kit: the names must differ, or one would stop the engines of the other.
    engines = [Engine(kit, f"warmroute-test-{os.getpid()}-{number}", free_port()) for number in range(len(arguments))]
    try:
        for engine, own in zip(engines, arguments, strict=True):
            kit.call("start", engine.name, engine.port, *own)
        for engine in engines:
            kit.call("wait", engine.name, engine.port, str(START_SECONDS))
        yield engines
    finally:
        for engine in engines:
            kit.call("stop", engine.name, engine.port)


@contextmanager
def running_router(workers: Sequence[tuple[str, str]], log: Path, *options: str) -> Iterator[str]:
    """`warmroute serve` in front of the workers (flag, URL); yields its URL once all of them are in use."""
    port = free_port()
    named = [part for worker in workers for part in worker]
    argv = [sys.executable, "-m", "warmroute", "serve", "--host", "127.0.0.1", "--port", str(port), *named, *options]
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
    """The metrics of an engine or a router. While engines compute on all cores, one may wait for an answer."""
    deadline = time.monotonic() + METRICS_SECONDS
    while (page := fetch(f"{url}/metrics")) is None:
        assert time.monotonic() < deadline, f"no metrics at {url}"
    return page.decode()


def sample(page: str, family: str, **labels: str) -> float:
    """The sum of a family's samples, of those with these labels."""
    found = re.findall(rf"^{re.escape(family)}(?:\{{([^}}]*)\}})? (\S+)$", page, re.MULTILINE)
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    values = [float(value) for given, value in found if all(label in given.split(",") for label in wanted)]
    assert values, f"no {family} {labels or ''}"
    return sum(values)
