"""The grid as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.grid.cells import Figures
from benchmarks.grid.verdicts import BOUND, Place, Row, geometric_mean, shortfalls


def cells_table(rows: Sequence[Row], bound: Mapping[Place, Figures]) -> str:
    """One line per cell: our figures, and over the best rival's."""
    lines = [
        "| trace | workers | load | TTFT mean, s | p99, s | cached | max/mean | mean / best rival | p99 / best rival "
        "| oracle's mean, s |",
        "|---|---:|---:|---:|---:|---:|---:|---|---|---:|",
    ]
    for row in rows:
        trace, workers, load = row.place
        ours = row.ours
        oracle = f"{bound[row.place].mean:.3f}" if row.place in bound else "-"
        lines.append(
            f"| {trace} | {workers} | {load:g} | {ours.mean:.3f} | {ours.p99:.2f} | {ours.hit_share:.1%} "
            f"| {ours.imbalance:.2f} | {row.mean_ratio:.2f} {row.best_mean} | {row.p99_ratio:.2f} {row.best_p99} "
            f"| {oracle} |"
        )
    return "\n".join(lines)


def policies_table(figures: Mapping[Place, Mapping[str, Figures]], ours: str) -> str:
    """One line per policy: its figures over ours, geometric means over all cells, and its worst cell."""
    lines = ["| policy | mean / ours | worst | p99 / ours | worst |", "|---|---:|---:|---:|---:|"]
    names = sorted(
        next(iter(figures.values())),
        key=lambda name: geometric_mean([cell[name].mean / cell[ours].mean for cell in figures.values()]),
    )
    for name in names:
        mean = [cell[name].mean / cell[ours].mean for cell in figures.values()]
        p99 = [cell[name].p99 / cell[ours].p99 for cell in figures.values()]
        shown = f"{name} (bound)" if name == BOUND else name
        lines.append(
            f"| {shown} | {geometric_mean(mean):.2f} | {max(mean):.2f} | {geometric_mean(p99):.2f} | {max(p99):.2f} |"
        )
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """The geometric means over all cells, and what falls short."""
    mean = geometric_mean([row.mean_ratio for row in rows])
    p99 = geometric_mean([row.p99_ratio for row in rows])
    lines = [f"{len(rows)} cells. Ours over the best rival of each cell: mean {mean:.3f}, p99 {p99:.3f}."]
    found = shortfalls(rows)
    lines += ["", "Short of the goal:" if found else "Nothing falls short of the goal."]
    lines += [f"- {line}" for line in found]
    return "\n".join(lines)
