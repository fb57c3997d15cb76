"""One run of one scenario against one router, and the bench that starts both."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.answers import ANSWER
from benchmarks.load import Load, LoadResult, connected, run_load
from benchmarks.processes import Child, Cores, free_port
from benchmarks.prompts import Prompts
from benchmarks.routers import Router
from benchmarks.scenarios import MEMORY_PROMPT_BYTES, MEMORY_PROMPTS, Scenario

WORKERS = 4


@dataclass(frozen=True)
class Target:
    """A running router (or a bare worker) that takes load."""

    name: str
    port: int
    child: Child


@dataclass
class Row:
    """All runs of one router in one scenario, oldest first."""

    cpu_us: list[float] = field(default_factory=list)
    requests_per_second: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """Share of the run in which the router was on its core."""
    requests: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """Whether every answer was right."""
        return bool(self.requests) and not self.failed

    @property
    def median_us(self) -> float:
        """Middle of the CPU times per request, in microseconds."""
        return statistics.median(self.cpu_us)

    def add(self, load: LoadResult, cpu_seconds: float) -> None:
        """Take in one run."""
        self.cpu_us.append(cpu_seconds * 1e6 / max(load.requests, 1))
        self.requests_per_second.append(load.requests / load.seconds)
        self.busy.append(cpu_seconds / load.seconds)
        self.requests += load.requests
        self.failed += load.failed
        self.errors += load.errors


@contextlib.contextmanager
def mock_workers(cores: Cores, cache_tokens: int, pairs: str | None = None) -> Iterator[tuple[Child, list[int]]]:
    """A process of mock workers and their ports; with `pairs`, engines of that make, half of them for prefill."""
    argv = [
        sys.executable,
        "-m",
        "benchmarks.mock_worker",
        "--workers",
        str(WORKERS),
        "--cache-tokens",
        str(cache_tokens),
        *(("--pairs", pairs) if pairs else ()),
    ]
    with Child(argv, cores.mocks) as child:
        yield child, json.loads(child.read_line())


@contextlib.contextmanager
def running(router: Router, workers: Sequence[int], cores: Cores, directory: Path) -> Iterator[Target]:
    """A fresh router in front of the workers, ready to serve. Its log goes to `directory`."""
    port = free_port()
    with Child(router.command(port, workers, directory), cores.router, log=directory / f"{router.name}.log") as child:
        child.wait_until(lambda: router.ready(port, len(workers)))
        yield Target(router.name, port, child)


async def measure(target: Target, scenario: Scenario, prompts: Prompts, seconds: float, row: Row) -> None:
    """Run the scenario once on connections of its own and add what it cost the router to `row`."""
    async with connected(target.port, scenario.answer_bytes, scenario.connections) as load:
        run = Run(target, load)
        await run.go_on(prompts, seconds=seconds)
    row.add(run.load, run.cpu_seconds)


class Run:
    """One run against one router, in slices: others take their turns between them."""

    def __init__(self, target: Target, connections: Load) -> None:
        self._target = target
        self._connections = connections
        self.load = LoadResult()
        """Of all slices together, as is `cpu_seconds`."""
        self.cpu_seconds = 0.0

    async def go_on(self, prompts: Prompts, *, seconds: float | None = None, requests: int | None = None) -> None:
        """Another slice, of so many seconds or requests."""
        before = self._target.child.cpu_seconds()
        self.load.add(await self._connections.run(prompts, seconds=seconds, requests=requests))
        self.cpu_seconds += self._target.child.cpu_seconds() - before


@dataclass(frozen=True)
class Growth:
    """Resident memory of a router before and after the unique prompts, in bytes."""

    before: int
    after: int
    failed: int

    @property
    def bytes(self) -> int:
        """How much it grew."""
        return self.after - self.before


async def measure_memory(target: Target) -> Growth:
    """What `MEMORY_PROMPTS` unique prompts leave behind, buffers for requests of that size being there already."""
    size = MEMORY_PROMPT_BYTES
    same = Prompts(size, shared=0, seed=1)()
    warm = await run_load(target.port, lambda: same, len(ANSWER), connections=8, requests=400)
    before = target.child.rss_bytes()
    load = await run_load(
        target.port, Prompts(size, shared=0, seed=2), len(ANSWER), connections=8, requests=MEMORY_PROMPTS
    )
    return Growth(before, target.child.rss_bytes(), warm.failed + load.failed)
