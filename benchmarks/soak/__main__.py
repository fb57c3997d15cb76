"""Soak: 200 clients and four engines that die and come back; what was lost, what leaked, what grew.

The exit code is 1 when anything was lost that could have been served, when the books were wrong at any moment or are
not empty at the end, or when memory grew by more than a twentieth between the first third of the run and its end (runs
of two minutes and more).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import aiohttp

from benchmarks.soak.chaos import Chaos
from benchmarks.soak.clients import Results, keep_asking
from benchmarks.soak.processes import Process, make_engines, make_router
from benchmarks.soak.watch import Watch, healthy_workers, read_metrics

ENGINES = 4
MEMORY_GROWTH = 1.05
SHORTEST_FOR_MEMORY = 120.0
HELD = ("warmroute_leases_open", "warmroute_running_requests", "warmroute_pending_prefill_tokens")


def main() -> int:
    """Read the flags and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--duration", type=float, default=180.0, help="seconds (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=200, help="at a time (default: %(default)s)")
    parser.add_argument("--index-max-bytes", type=int, default=2_000_000, help="of the router (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed when (default: %(default)s)")
    parser.add_argument("--keep-logs", type=Path, help="directory for the logs of all processes")
    options = parser.parse_args()
    if options.keep_logs is not None:
        options.keep_logs.mkdir(parents=True, exist_ok=True)
        return asyncio.run(soak(options, options.keep_logs))
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(soak(options, Path(directory)))


async def soak(options: argparse.Namespace, logs: Path) -> int:
    """Run it and print what was seen; returns the exit code."""
    engines = make_engines(ENGINES, logs)
    router, port = make_router(list(engines), options.index_max_bytes, logs)
    url = f"http://127.0.0.1:{port}"
    try:
        for process in (*list(engines.values())[: ENGINES - 1], router):
            await process.start()
        await _until_ready(url, router)
        return await _run(options, engines, router, url)
    finally:
        for process in (router, *engines.values()):
            if process.is_up:
                await process.kill()


async def _run(options: argparse.Namespace, engines: dict[str, Process], router: Process, url: str) -> int:
    results, watch = Results(), Watch(router, url)
    chaos = Chaos(engines, url, Random(options.seed))
    over = asyncio.Event()
    cpu = router.cpu_seconds()
    async with asyncio.TaskGroup() as tasks:
        for number in range(options.clients):
            tasks.create_task(keep_asking(url, number, over, results))
        tasks.create_task(watch.run(over))
        tasks.create_task(chaos.run(over))
        await asyncio.sleep(options.duration)
        over.set()
    cpu = router.cpu_seconds() - cpu
    problems = [f"{count} times {what}" for what, count in results.faults.most_common(20)]
    problems += _memory_problems(options.duration, watch) + await _books_at_the_end(url)
    if watch.inconsistent:
        problems.append(f"the ledger was not consistent {watch.inconsistent} times")
    exit_code = await router.end()
    if exit_code:
        problems.append(f"the router ended with exit code {exit_code}")
    problems += [f"in the router's log: {line}" for line in router.log().splitlines() if "Traceback" in line]
    _report(options, results, watch, chaos, cpu)
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


def _report(options: argparse.Namespace, results: Results, watch: Watch, chaos: Chaos, cpu: float) -> None:
    print(f"{options.duration:g} s, {options.clients} clients, {chaos.kills} kills")
    for name, count in sorted(results.counts.items()):
        print(f"  {name:32} {count}")
    reached = "never" if watch.index_reached_at is None else f"after {watch.index_reached_at:.0f} s"
    print(f"  index bound reached              {reached}")
    sixths = [watch.memory_around(options.duration * part / 6) / 2**20 for part in range(1, 7)]
    print(f"  memory at each sixth, MiB        {', '.join(f'{mib:.1f}' for mib in sixths)}")
    print(f"  CPU of the router                {cpu / options.duration:.2f} cores")


def _memory_problems(duration: float, watch: Watch) -> list[str]:
    if duration < SHORTEST_FOR_MEMORY:
        return []
    problems = []
    third, end = watch.memory_around(duration / 3), watch.memory_around(duration)
    if end > MEMORY_GROWTH * third:
        problems.append(f"memory grew from {third / 2**20:.1f} to {end / 2**20:.1f} MiB")
    if watch.index_reached_at is None or watch.index_reached_at > duration / 3:
        problems.append("the index bound was not reached in the first third: memory could not have been flat")
    return problems


async def _books_at_the_end(url: str) -> list[str]:
    async with aiohttp.ClientSession(trust_env=False) as http:
        deadline = time.monotonic() + 5
        while True:
            samples = await read_metrics(http, url)
            held = [f"{name} is {samples[name]:g}" for name in HELD if samples[name]]
            if not held or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
    if lost := samples["warmroute_leases_lost_total"]:
        held.append(f"{lost:g} leases were lost")
    return [f"at the end, {what}" for what in held]


async def _until_ready(url: str, router: Process) -> None:
    async with aiohttp.ClientSession(trust_env=False) as http, asyncio.timeout(60):
        while True:
            try:
                if len(await healthy_workers(http, url)) == ENGINES - 1:
                    return
            except aiohttp.ClientError:
                if not router.is_up:
                    raise RuntimeError(router.log()) from None
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
