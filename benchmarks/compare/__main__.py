"""Warmroute, sglang-router, vllm-router and smg in front of the same simulated engines, with the same traffic.

    python -m benchmarks.compare [--traces DIR] [--quick] [--json FILE]

For each workload the routers take turns; every run has fresh engines and a fresh router. Without a folder of traces
only the workloads that are made here are played. docs/operate/benchmarks.md explains the figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop
from rich.console import Console

from benchmarks.compare.contestants import Contestant
from benchmarks.compare.play import Run, play
from benchmarks.compare.report import as_json, chosen, sentence, table, verdicts
from benchmarks.compare.workloads import CLAUDE_CODE, CONVERSATION, Workload, workloads
from benchmarks.routers import Router
from warmroute.replay.readers.lines import TraceError

REQUESTS, QUICK_REQUESTS = 3000, 800
SPEED = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit code 1 if one of ours lost a request; missed targets do not change it."""
    args = _arguments(argv)
    began = time.monotonic()
    console = Console(width=130)
    if args.traces is None:
        print("no folder of traces (TRACES): only the made workloads are played", file=sys.stderr)
    results: dict[Workload, dict[str, list[Run]]] = {}
    routers = {one: one.make() for one in args.only}
    with tempfile.TemporaryDirectory(prefix="warmroute-compare-") as directory:
        for workload in args.workloads:
            runs = results[workload] = _compare(workload, routers, args, Path(directory))
            console.print(table(workload, runs, max(run.requests for of_name in runs.values() for run in of_name)))
            for verdict in verdicts(workload, runs):
                console.print(sentence(verdict))
    console.print(
        f"{time.monotonic() - began:.0f} s, load average {os.getloadavg()[0]:.1f}. Lag is the p99 lateness of load "
        f"generator and engines: differences of that size between times mean nothing."
    )
    if args.json:
        settings = {"speed": args.speed, "rounds": args.rounds, "requests": args.requests}
        versions = {one.name: router.version for one, router in routers.items()}
        args.json.write_text(json.dumps(as_json(results, versions, settings), indent=1) + "\n")
    lost = [
        run
        for runs in results.values()
        for one in routers
        if one.side == "ours"
        for run in runs[one.name]
        if run.failed or run.not_sent
    ]
    return 1 if lost else 0


def _compare(
    workload: Workload, routers: dict[Contestant, Router], args: argparse.Namespace, directory: Path
) -> dict[str, list[Run]]:
    """All routers with one workload: A B C, C B A, ... Each round has arrival times of its own."""
    trace = workload.load()
    # Millions of objects that stay: no collection shall look at them while something is timed.
    gc.collect()
    gc.freeze()
    runs: dict[str, list[Run]] = {one.name: [] for one in routers}
    for number in range(args.rounds):
        for one in reversed(routers) if number % 2 else routers:
            run = uvloop.run(play(routers[one], workload, trace, number, args.speed, directory))
            runs[one.name].append(run)
            failures = ", ".join(f"{kind} x {count}" for kind, count in run.errors.items()) or "none failed"
            shown = f"{run.mean:.2f} s mean, {failures}, {run.seconds:.0f} s"
            print(f"{workload.name}, {one.name}: {shown}", file=sys.stderr, flush=True)
    return runs


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="folder with the public traces")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS} requests instead of {REQUESTS}")
    parser.add_argument("--requests", type=int, metavar="N", help="about so many requests of each workload")
    parser.add_argument("--speed", type=float, default=SPEED, help="how much faster time runs (default: %(default)g)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each router (default: %(default)s)")
    parser.add_argument("--workload", action="append", metavar="NAME", help="this workload; may be repeated")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="contestants that begin with this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run to FILE as well")
    args = parser.parse_args(argv)
    args.requests = args.requests or (QUICK_REQUESTS if args.quick else REQUESTS)
    missing = (
        [] if args.traces is None else [one for one in (CONVERSATION, CLAUDE_CODE) if not (args.traces / one).exists()]
    )
    if missing:
        parser.error(f"--traces: {args.traces} lacks {', '.join(missing)}")
    try:
        args.only = chosen(args.only)
    except ValueError as error:
        parser.error(str(error))
    args.workloads = workloads(args.traces, args.requests)
    if unknown := set(args.workload or ()) - {one.name for one in args.workloads}:
        parser.error(f"no workload is called {', '.join(sorted(unknown))}")
    args.workloads = [one for one in args.workloads if not args.workload or one.name in args.workload]
    return args


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (TraceError, OSError) as error:
        sys.exit(f"benchmarks.compare: {error}")
