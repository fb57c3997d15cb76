"""Warmroute and sglang-router side by side: CPU time per request and per chunk, requests per second, memory.

    python -m benchmarks.side_by_side [--quick] [--json FILE] [--routers warmroute,sglang-router,nginx,direct]

The router under test has one core for itself, load and mock workers share another. Both routers run in the same minutes
and take turns, both with their cache-aware policy and logs at warning. docs/operate/benchmarks.md explains the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop
from rich.console import Console

from benchmarks import routers as known
from benchmarks.load import Load, connected
from benchmarks.measure import Run, Target, measure, measure_memory, mock_workers, running
from benchmarks.onlookers import live_page
from benchmarks.processes import Child, Cores
from benchmarks.prompts import Prompts
from benchmarks.report import as_json, tables
from benchmarks.results import DIRECT, MIXED, OURS, PEER, UNWATCHED, VLLM, WATCHED, Results
from benchmarks.routers import Router
from benchmarks.scenarios import (
    CACHE_TOKENS,
    MEMORY_CACHE_TOKENS,
    MIXED_SCENARIOS,
    PAIR_REQUESTS,
    PAIR_STREAM,
    TELEMETRY_SCENARIOS,
    Scenario,
)

_NAMES = (OURS, PEER, "nginx", DIRECT)


@dataclass(frozen=True)
class Settings:
    """How long it takes. A run is `slices` of so many `seconds`; with streams, two of one request per connection."""

    rounds: int
    pair_rounds: int
    telemetry_rounds: int
    slices: int
    seconds: float
    warm_up_seconds: float


FULL = Settings(rounds=20, pair_rounds=14, telemetry_rounds=48, slices=4, seconds=0.1, warm_up_seconds=0.7)
QUICK = Settings(rounds=8, pair_rounds=8, telemetry_rounds=24, slices=4, seconds=0.1, warm_up_seconds=0.3)


class Bench:
    """Plays all scenarios. The load runs in this process, on a core without the router."""

    def __init__(self, names: Sequence[str], settings: Settings, directory: Path) -> None:
        self._names = names
        self._routers = _chosen(names)
        self._settings = settings
        self._directory = directory
        self._cores = Cores.of_machine()
        self.results = Results({router.name: router.version for router in self._routers})

    async def run(self) -> None:
        """Fill `results`."""
        os.sched_setaffinity(0, {self._cores.load})
        # No collection may fall into one router's run and not into the other's.
        gc.freeze()
        gc.disable()
        for scenario in MIXED_SCENARIOS:
            await self._compare(scenario, self._routers, self._settings.rounds, direct=DIRECT in self._names)
        if pairs := _for_pairs(self._names):
            await self._compare_pairs(pairs)
        if OURS in self._names:
            await self._compare_telemetry()
        print("memory ...", file=sys.stderr)
        for router in self._routers:
            with mock_workers(self._cores, MEMORY_CACHE_TOKENS) as (_, ports), self._start(router, ports) as target:
                self.results.memory[router.name] = await measure_memory(target)

    async def _compare_pairs(self, routers: Sequence[Router]) -> None:
        rounds = self._settings.pair_rounds
        for scenario in PAIR_REQUESTS:
            await self._compare(scenario, routers, rounds)
        await self._compare(PAIR_STREAM, [router for router in routers if router.name in (OURS, PEER)], rounds)

    async def _compare_telemetry(self) -> None:
        collector = [sys.executable, "-m", "benchmarks.onlookers"]
        with Child(collector, self._cores.mocks) as child:
            watched = known.watched(WATCHED, f"http://127.0.0.1:{int(child.read_line())}")
            for scenario in TELEMETRY_SCENARIOS:
                # The difference is small: it takes more rounds to see it.
                await self._compare(scenario, [watched, known.unwatched(UNWATCHED)], self._settings.telemetry_rounds)

    async def _compare(
        self, scenario: Scenario, routers: Sequence[Router], rounds: int, *, direct: bool = False
    ) -> None:
        """Fresh routers take turns with one kind of load."""
        print(f"{scenario.name} ...", file=sys.stderr)
        prompts = scenario.prompts()
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            makes = dict.fromkeys(router.pairs for router in routers) or {None: None}
            workers = {make: stack.enter_context(mock_workers(self._cores, CACHE_TOKENS, make)) for make in makes}
            targets = [stack.enter_context(self._start(router, workers[router.pairs][1])) for router in routers]
            for router, target in zip(routers, targets, strict=True):
                if router.is_looked_at:
                    await stack.enter_async_context(live_page(target.port))
            loads = [
                await stack.enter_async_context(connected(target.port, scenario.answer_bytes, scenario.connections))
                for target in targets
            ]
            for load in loads:
                await load.run(prompts, seconds=settings.warm_up_seconds)
            for _ in range(rounds if targets else 0):
                await self._round(scenario, prompts, list(zip(targets, loads, strict=True)))
            if direct:
                mocks, ports = workers[None]
                target = Target(DIRECT, ports[0], mocks)
                seconds = settings.slices * settings.seconds
                await measure(target, scenario, prompts, seconds, self.results.row(scenario, DIRECT))

    async def _round(self, scenario: Scenario, prompts: Prompts, targets: Sequence[tuple[Target, Load]]) -> None:
        """A run against each router. Their slices alternate, A B, B A, A B, ...: the machine's moods last longer."""
        runs = [Run(target, load) for target, load in targets]
        for number in range(2 if scenario.stream else self._settings.slices):
            for run in reversed(runs) if number % 2 else runs:
                if scenario.stream:
                    await run.go_on(prompts, requests=scenario.connections)
                else:
                    await run.go_on(prompts, seconds=self._settings.seconds)
        for (target, _), run in zip(targets, runs, strict=True):
            self.results.row(scenario, target.name).add(run.load, run.cpu_seconds)

    def _start(self, router: Router, ports: Sequence[int]) -> contextlib.AbstractContextManager[Target]:
        return running(router, ports, self._cores, self._directory)


def _chosen(names: Sequence[str]) -> list[Router]:
    """The routers by name, installed where needed."""
    makers: dict[str, Callable[[], Router | None]] = {OURS: known.warmroute, PEER: known.sglang, "nginx": known.nginx}
    return [router for name in names if name in makers and (router := makers[name]()) is not None]


def _for_pairs(names: Sequence[str]) -> list[Router]:
    """Those of the routers that serve pairs; ours also in front of mixed workers, and of engines that work in turn."""
    routers = [known.warmroute(OURS, "sglang"), known.warmroute(MIXED), known.warmroute(VLLM, "vllm")]
    routers = routers if OURS in names else []
    return [*routers[:1], known.sglang("sglang"), *routers[1:]] if PEER in names else routers


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit code 1 if any answer was wrong, whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about 3 minutes, with more noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument(
        "--routers", type=lambda text: text.split(","), default=list(_NAMES), help=f"some of {','.join(_NAMES)}"
    )
    args = parser.parse_args(argv)
    if unknown := set(args.routers) - set(_NAMES):
        parser.error(f"unknown router: {', '.join(sorted(unknown))}")
    settings = QUICK if args.quick else FULL
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warmroute-bench-") as directory:
        bench = Bench(args.routers, settings, Path(directory))
        uvloop.run(bench.run())
    results = bench.results
    console = Console(width=110)
    for table in tables(results):
        console.print(table)
    console.print(
        f"{time.monotonic() - started:.0f} s, load average {os.getloadavg()[0]:.1f}: other busy programs add noise"
    )
    if args.json:
        shown = {**asdict(settings), "quick": args.quick}
        args.json.write_text(json.dumps(as_json(results, shown), indent=1) + "\n")
    return 0 if results.valid else 1


if __name__ == "__main__":
    sys.exit(main())
