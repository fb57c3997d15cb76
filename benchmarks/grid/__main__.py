"""Run the grid: `python -m benchmarks.grid --traces DIR [--quick]`, or `make grid TRACES=DIR ARGS=--quick`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import product
from pathlib import Path

from benchmarks.grid.book import Book
from benchmarks.grid.cells import Cell, Figures, Setting, measure, saturation
from benchmarks.grid.report import cells_table, policies_table, summary
from benchmarks.grid.verdicts import BOUND, PLAIN, Place, average, contenders, judge
from benchmarks.grid.workloads import FILES
from warmroute.rivals import RIVALS

LOADS = (0.3, 0.7, 0.9, 1.1)
OWN = ("least_delay", "cache_aware")


def main() -> int:
    """Compute all cells and print the report as Markdown."""
    args = _arguments()
    began = time.monotonic()
    settings = [
        Setting(args.traces, trace, args.half, workers) for trace, workers in product(args.only or FILES, args.workers)
    ]
    book = Book(args.results)
    with ProcessPoolExecutor(args.processes) as pool:
        unknown = [setting for setting in settings if book.rate(setting) is None]
        for setting, rate in zip(unknown, pool.map(saturation, unknown), strict=True):
            book.add_rate(setting, rate)
        _tell(f"saturation rates are known after {time.monotonic() - began:.0f} s")
        figures = _all_figures(pool, book, settings, args.seeds, args.policy or RIVALS)
    rows = [judge(place, by_policy, OWN[0], OWN) for place, by_policy in figures.items()]
    bound = {place: by_policy[BOUND] for place, by_policy in figures.items() if BOUND in by_policy}
    print(summary(rows), end="\n\n")
    print(cells_table(rows, bound), end="\n\n")
    print(policies_table(figures, OWN[0]))
    if args.json:
        dump = [
            {**dict(zip(("trace", "workers", "load"), place, strict=True)), "policy": name, **asdict(of_policy)}
            for place, by_policy in figures.items()
            for name, of_policy in by_policy.items()
        ]
        args.json.write_text(json.dumps(dump, indent=1) + "\n")
    _tell(f"done after {time.monotonic() - began:.0f} s")
    return 0


def _all_figures(
    pool: ProcessPoolExecutor, book: Book, settings: Sequence[Setting], seeds: int, rivals: Iterable[str]
) -> dict[Place, dict[str, Figures]]:
    """Every policy with the first seed, those that may be the best rival of a cell with the others as well."""
    policies = (*OWN, *rivals, "process_tokens", *PLAIN, BOUND)
    places = list(product(settings, LOADS))

    def cells(setting: Setting, load: float, seed: int, names: Iterable[str]) -> list[Cell]:
        return [Cell(setting, load, load * (book.rate(setting) or 0.0), seed, name) for name in names]

    _compute(pool, book, [cell for place in places for cell in cells(*place, 1, policies)])
    first = {place: {cell.policy: book.figures(cell) for cell in cells(*place, 1, policies)} for place in places}
    kept = {place: [*OWN, *contenders(_known(figures), OWN)] for place, figures in first.items()}
    others = range(2, seeds + 1)
    _compute(pool, book, [cell for place in places for seed in others for cell in cells(*place, seed, kept[place])])
    whole: dict[Place, dict[str, Figures]] = {}
    for (setting, load), of_first in first.items():
        by_policy = whole[setting.trace, setting.workers, load] = {}
        for name in policies:
            runs = [of_first[name]]
            if name in kept[setting, load]:
                runs += [book.figures(cell) for seed in others for cell in cells(setting, load, seed, [name])]
            by_policy[name] = average([figures for figures in runs if figures is not None])
    return whole


def _known(figures: Mapping[str, Figures | None]) -> dict[str, Figures]:
    return {name: of_policy for name, of_policy in figures.items() if of_policy is not None}


def _compute(pool: ProcessPoolExecutor, book: Book, cells: Sequence[Cell]) -> None:
    missing = [cell for cell in cells if book.figures(cell) is None]
    for at, (cell, figures) in enumerate(zip(missing, pool.map(measure, missing), strict=True), start=1):
        book.add_figures(cell, figures)
        if at % 50 == 0:
            _tell(f"{at} of {len(missing)} replays")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.grid", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="folder with the public traces")
    parser.add_argument("--quick", action="store_true", help="one seed, and only 8 workers")
    parser.add_argument("--half", choices=("grid", "tuning"), default="grid", help="which half of the sessions")
    parser.add_argument("--only", action="append", choices=tuple(FILES), help="this trace; may be repeated")
    parser.add_argument("--workers", type=int, nargs="+", choices=(8, 32), help="fleets")
    parser.add_argument("--policy", action="append", choices=tuple(RIVALS), help="only this rival; may be repeated")
    parser.add_argument("--seeds", type=int, default=None, metavar="N", help="default: 3, with --quick 1")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results in FILE, and go on from what it has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE as well")
    args = parser.parse_args(argv)
    if args.seeds is None:
        args.seeds = 1 if args.quick else 3
    if args.workers is None:
        args.workers = [8] if args.quick else [8, 32]
    missing = [file for file in FILES.values() if not (args.traces / file).exists()]
    if missing:
        parser.error(f"--traces: {args.traces} lacks {', '.join(missing)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
