"""Run the grid: `python -m benchmarks.grid --traces DIR [--quick]`, or `make grid TRACES=DIR ARGS=--quick`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from pathlib import Path

from benchmarks.grid.cells import Cell, Figures, Setting, measure, saturation
from benchmarks.grid.report import cells_table, policies_table, summary
from benchmarks.grid.verdicts import BOUND, Place, average, judge
from benchmarks.grid.workloads import FILES
from warmroute.rivals import RIVALS

LOADS = (0.3, 0.7, 0.9, 1.1)
OWN = ("least_delay", "cache_aware")
PLAIN = ("process_tokens", "request_num", "round_robin")
QUICK_REQUESTS = {8: 1200, 32: 1600}


def main() -> int:
    """Compute all cells and print the report as Markdown."""
    args = _arguments()
    began = time.monotonic()
    seeds = range(1, args.seeds + 1)
    settings = [
        Setting(args.traces, trace, args.half, workers, QUICK_REQUESTS[workers] if args.quick else None)
        for trace, workers in product(args.only or FILES, args.workers)
    ]
    policies = (*OWN, *RIVALS, *PLAIN, BOUND)
    with ProcessPoolExecutor(args.processes) as pool:
        rates = dict(zip(settings, pool.map(saturation, settings), strict=True))
        _tell(f"saturation rates are known after {time.monotonic() - began:.0f} s")
        cells = [
            Cell(setting, load, load * rates[setting], seed, policy)
            for setting, load, seed, policy in product(settings, LOADS, seeds, policies)
        ]
        results = dict(zip(cells, pool.map(measure, cells, chunksize=len(policies)), strict=True))
    figures = _by_place(results)
    rows = [judge(place, by_policy, OWN[0], OWN) for place, by_policy in figures.items()]
    print(summary(rows), end="\n\n")
    print(cells_table(rows, {place: by_policy[BOUND] for place, by_policy in figures.items()}), end="\n\n")
    print(policies_table(figures, OWN[0]))
    if args.json:
        dump = [
            {**dict(zip(("trace", "workers", "load"), place, strict=True)), "policy": name, **asdict(of_policy)}
            for place, by_policy in figures.items()
            for name, of_policy in by_policy.items()
        ]
        args.json.write_text(json.dumps(dump, indent=1) + "\n")
    _tell(f"{len(cells)} replays in {time.monotonic() - began:.0f} s")
    return 0


def _by_place(results: Mapping[Cell, Figures]) -> dict[Place, dict[str, Figures]]:
    seeds: dict[tuple[Place, str], list[Figures]] = {}
    for cell, figures in results.items():
        place = (cell.setting.trace, cell.setting.workers, cell.load)
        seeds.setdefault((place, cell.policy), []).append(figures)
    by_place: dict[Place, dict[str, Figures]] = {}
    for (place, policy), of_seeds in seeds.items():
        by_place.setdefault(place, {})[policy] = average(of_seeds)
    return by_place


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.grid", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="folder with the public traces")
    parser.add_argument("--quick", action="store_true", help="one seed, and only the first sessions of each trace")
    parser.add_argument("--half", choices=("grid", "tuning"), default="grid", help="which half of the sessions")
    parser.add_argument("--only", action="append", choices=tuple(FILES), help="this trace; may be repeated")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 32], choices=(8, 32), help="fleets")
    parser.add_argument("--seeds", type=int, default=None, metavar="N", help="default: 3, with --quick 1")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE as well")
    args = parser.parse_args(argv)
    if args.seeds is None:
        args.seeds = 1 if args.quick else 3
    missing = [file for file in FILES.values() if not (args.traces / file).exists()]
    if missing:
        parser.error(f"--traces: {args.traces} lacks {', '.join(missing)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
