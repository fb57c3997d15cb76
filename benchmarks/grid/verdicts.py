"""What the figures of a grid say: ours over the best rival, cell by cell, and whether that is what it has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from benchmarks.grid.cells import Figures

BOUND = "oracle"
"""Asks the engines themselves, so it is no rival."""
PLAIN = ("request_num", "round_robin")
MOST_MEAN, MOST_P99, MOST_IMBALANCE = 1.10, 1.25, 1.3
LIGHT, BUSY = 0.3, 0.7
_HOPELESS = 1.3

Place = tuple[str, int, float]
"""Trace, workers, part of the saturation rate."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell: the figures of our policy, and over those of the best rival for each."""

    place: Place
    ours: Figures
    best_mean: str
    best_p99: str
    mean_ratio: float
    p99_ratio: float
    plain_ratio: float
    """Our mean over that of the better one of least-loaded and round robin."""


def average(figures: Sequence[Figures]) -> Figures:
    """The mean over seeds; of the imbalance the worst."""
    return Figures(
        fmean(f.mean for f in figures),
        fmean(f.p99 for f in figures),
        fmean(f.hit_share for f in figures),
        max(f.imbalance for f in figures),
    )


def contenders(by_policy: Mapping[str, Figures], own: Sequence[str]) -> list[str]:
    """The rivals that may be the best of a cell when more seeds are averaged, and the plain balancers.

    The others were more than 1.3 times as slow as the best one with this seed, in the mean and in the p99.
    """
    rivals = {name: figures for name, figures in by_policy.items() if name not in own and name != BOUND}
    mean = _HOPELESS * min(figures.mean for figures in rivals.values())
    p99 = _HOPELESS * min(figures.p99 for figures in rivals.values())
    return [name for name, figures in rivals.items() if figures.mean <= mean or figures.p99 <= p99 or name in PLAIN]


def judge(place: Place, by_policy: Mapping[str, Figures], ours: str, own: Sequence[str]) -> Row:
    """Compare one cell. `own` are our policies: they are nobody's rivals."""
    rivals = {name: figures for name, figures in by_policy.items() if name not in own and name != BOUND}
    best_mean = min(rivals, key=lambda name: rivals[name].mean)
    best_p99 = min(rivals, key=lambda name: rivals[name].p99)
    mine = by_policy[ours]
    return Row(
        place,
        mine,
        best_mean,
        best_p99,
        mine.mean / rivals[best_mean].mean,
        mine.p99 / rivals[best_p99].p99,
        mine.mean / min(rivals[name].mean for name in PLAIN),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of some ratios."""
    return exp(fmean(map(log, ratios)))


def shortfalls(rows: Sequence[Row]) -> list[str]:
    """Everything that is not as good as it has to be, in words; empty when we win."""
    found = []
    for name, mean in (
        ("mean", geometric_mean([row.mean_ratio for row in rows])),
        ("p99", geometric_mean([row.p99_ratio for row in rows])),
    ):
        if mean >= 1.0:
            found.append(f"geometric mean of {name} is {mean:.3f} of the best rival's")
    for row in rows:
        trace, workers, load = row.place
        where = f"{trace}, {workers} workers, {load:g}"
        if row.mean_ratio > MOST_MEAN:
            found.append(f"{where}: mean is {row.mean_ratio:.2f} of {row.best_mean}'s")
        if row.p99_ratio > MOST_P99:
            found.append(f"{where}: p99 is {row.p99_ratio:.2f} of {row.best_p99}'s")
        if load <= LIGHT and row.plain_ratio > 1.0:
            found.append(f"{where}: mean is {row.plain_ratio:.3f} of the better plain balancer's")
        if load >= BUSY and row.ours.imbalance > MOST_IMBALANCE:
            found.append(f"{where}: max/mean uncached tokens {row.ours.imbalance:.2f}")
    return found
