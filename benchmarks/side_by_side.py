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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console

from benchmarks import routers as known
from benchmarks.measure import Row, Target, measure, measure_memory, mock_workers, running
from benchmarks.processes import Cores
from benchmarks.report import DIRECT, OURS, PEER, Results, as_json, tables
from benchmarks.routers import Router
from benchmarks.scenarios import CACHE_TOKENS, MEMORY_CACHE_TOKENS, REQUESTS, STREAM, Scenario

_NAMES = (OURS, PEER, "nginx", DIRECT)


@dataclass(frozen=True)
class Settings:
    """How long it takes."""

    rounds: int
    seconds: float
    warm_up_seconds: float


FULL = Settings(rounds=6, seconds=2.5, warm_up_seconds=0.7)
QUICK = Settings(rounds=3, seconds=0.8, warm_up_seconds=0.3)


class Bench:
    """Plays all scenarios. The load runs in this process, on a core without the router."""

    def __init__(self, routers: Sequence[Router], direct: bool, settings: Settings, directory: Path) -> None:
        self._routers = routers
        self._direct = direct
        self._settings = settings
        self._directory = directory
        self._cores = Cores.of_machine()
        self.results = Results({router.name: router.version for router in routers})

    async def run(self) -> None:
        """Fill `results`."""
        os.sched_setaffinity(0, {self._cores.load})
        # No collection may fall into one router's run and not into the other's.
        gc.freeze()
        gc.disable()
        for scenario in (*REQUESTS, STREAM):
            print(f"{scenario.name} ...", file=sys.stderr)
            await self._compare(scenario)
        print("memory ...", file=sys.stderr)
        for router in self._routers:
            with mock_workers(self._cores, MEMORY_CACHE_TOKENS) as (_, ports), self._start(router, ports) as target:
                self.results.memory[router.name] = await measure_memory(target)

    async def _compare(self, scenario: Scenario) -> None:
        """Fresh routers take turns with one kind of load: A B, B A, A B, ..."""
        prompts = scenario.prompts()
        settings = self._settings
        with contextlib.ExitStack() as stack:
            mocks, ports = stack.enter_context(mock_workers(self._cores, CACHE_TOKENS))
            targets = [stack.enter_context(self._start(router, ports)) for router in self._routers]
            for target in targets:
                await measure(target, scenario, prompts, settings.warm_up_seconds, Row())
            for number in range(settings.rounds):
                for target in reversed(targets) if number % 2 else targets:
                    await measure(target, scenario, prompts, settings.seconds, self.results.row(scenario, target.name))
            if self._direct:
                target = Target(DIRECT, ports[0], mocks)
                await measure(target, scenario, prompts, settings.seconds, self.results.row(scenario, DIRECT))

    def _start(self, router: Router, ports: Sequence[int]) -> contextlib.AbstractContextManager[Target]:
        return running(router, ports, self._cores, self._directory)


def _chosen(names: Sequence[str]) -> list[Router]:
    """The routers by name, installed where needed."""
    makers = {OURS: known.warmroute, PEER: known.sglang, "nginx": known.nginx}
    return [router for name in names if name in makers and (router := makers[name]()) is not None]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit code 1 if any answer was wrong, whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute, with more noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument(
        "--routers", type=lambda text: text.split(","), default=list(_NAMES), help=f"some of {','.join(_NAMES)}"
    )
    args = parser.parse_args(argv)
    if unknown := set(args.routers) - set(_NAMES):
        parser.error(f"unknown router: {', '.join(sorted(unknown))}")
    settings = QUICK if args.quick else FULL
    routers = _chosen(args.routers)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warmroute-bench-") as directory:
        bench = Bench(routers, DIRECT in args.routers, settings, Path(directory))
        uvloop.run(bench.run())
    results = bench.results
    console = Console(width=110)
    for table in tables(results):
        console.print(table)
    console.print(
        f"{time.monotonic() - started:.0f} s, load average {os.getloadavg()[0]:.1f}: other busy programs add noise"
    )
    if args.json:
        shown = {"rounds": settings.rounds, "seconds": settings.seconds, "quick": args.quick}
        args.json.write_text(json.dumps(as_json(results, shown), indent=1) + "\n")
    return 0 if results.valid else 1


if __name__ == "__main__":
    sys.exit(main())
