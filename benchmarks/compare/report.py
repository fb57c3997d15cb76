"""Runs as tables for people and as JSON for machines, and whether the targets are met."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.compare.contestants import CONTESTANTS, Contestant
from benchmarks.compare.play import ENGINES, Run
from benchmarks.compare.workloads import Workload

BUSY_TOO_MUCH = 0.6
"""Share of a core: a load generator or an engine process that needs more is late at times, whoever routes."""
LATE_TOO_MUCH = 0.5
"""Lag as a share of the lowest mean of a workload: above it, what was measured is the machine."""

Runs = Mapping[str, Sequence[Run]]
"""All runs of one workload, by contestant."""


@dataclass(frozen=True, slots=True)
class Row:
    """The means over the runs of one contestant; of what must not be large the largest."""

    mean: float
    p50: float
    p99: float
    cached_share: float
    imbalance: float
    errors: int
    lag: float
    busiest: float
    machine_busy: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Row:
        """From at least one run."""
        return cls(
            mean=statistics.fmean(run.mean for run in runs),
            p50=statistics.fmean(run.p50 for run in runs),
            p99=statistics.fmean(run.p99 for run in runs),
            cached_share=statistics.fmean(run.cached_share for run in runs),
            imbalance=statistics.fmean(run.imbalance for run in runs),
            errors=sum(run.failed + run.not_sent for run in runs),
            lag=max(run.lag for run in runs),
            busiest=max(max(run.busy[:2]) for run in runs),
            machine_busy=max(run.machine_busy for run in runs),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of ours against the peer with the lowest mean. A contestant with errors is nobody's best.

    Not `sound` is a comparison of which one side was measured on a machine that could not keep up.
    """

    ours: str
    peer: str
    ratio: float
    target: float
    sound: bool = True

    @property
    def met(self) -> bool:
        """Whether our mean is as low as it has to be."""
        return self.ratio <= self.target


def verdicts(workload: Workload, runs: Runs) -> list[Verdict]:
    """Ours against the best peer; nothing without a peer."""
    rows = {name: Row.of(of_name) for name, of_name in runs.items()}
    sides = {contestant.name: contestant.side for contestant in CONTESTANTS}
    peers = [name for name, row in rows.items() if sides[name] == "peer" and not row.errors]
    if not peers:
        return []
    best = min(peers, key=lambda name: rows[name].mean)
    bearable = LATE_TOO_MUCH * min(row.mean for row in rows.values())
    return [
        Verdict(name, best, row.mean / rows[best].mean, workload.target, max(row.lag, rows[best].lag) <= bearable)
        for name, row in rows.items()
        if sides[name] == "ours" and not row.errors
    ]


def table(workload: Workload, runs: Runs, requests: int) -> Table:
    """One line for each contestant."""
    title = f"{workload.name}: {requests} requests, {ENGINES} engines, times in their seconds"
    shown = Table(title=title, title_justify="left")
    columns = ("", "TTFT mean", "p50", "p99", "cached", "max/mean", "errors", "lag p99", "busiest", "machine")
    for column in columns:
        shown.add_column(column, justify="right" if column else "left", no_wrap=True)
    bearable = LATE_TOO_MUCH * min(Row.of(of_name).mean for of_name in runs.values())
    for name, of_name in runs.items():
        row = Row.of(of_name)
        late = row.lag > bearable
        shown.add_row(
            name,
            f"{row.mean:.2f}",
            f"{row.p50:.2f}",
            f"{row.p99:.1f}",
            f"{row.cached_share:.1%}",
            f"{row.imbalance:.2f}",
            str(row.errors),
            _flagged(f"{row.lag:.2f}", late),
            _flagged(f"{row.busiest:.0%}", row.busiest > BUSY_TOO_MUCH),
            f"{row.machine_busy:.0%}",
        )
    return shown


def _flagged(text: str, bad: bool) -> str:
    return f"[red]{text}[/red]" if bad else text


def sentence(verdict: Verdict) -> str:
    """A verdict in words."""
    if not verdict.sound:
        return f"{verdict.ours}: {verdict.ratio:.2f} of {verdict.peer}, [red]not judged: too much lag[/red]"
    met = "[green]met[/green]" if verdict.met else "[red]missed[/red]"
    return f"{verdict.ours}: {verdict.ratio:.2f} of {verdict.peer} (target <= {verdict.target:.2f}) {met}"


def as_json(
    results: Mapping[Workload, Runs], versions: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Every single run."""
    return {
        "settings": dict(settings),
        "versions": dict(versions),
        "workloads": {
            workload.name: {
                "runs": {name: [asdict(run) for run in of_name] for name, of_name in runs.items()},
                "verdicts": [{**asdict(one), "met": one.met} for one in verdicts(workload, runs)],
            }
            for workload, runs in results.items()
        },
    }


def chosen(names: Sequence[str]) -> list[Contestant]:
    """The contestants whose names begin with one of these. Raises ValueError for one that nobody's does."""
    for name in names:
        if not any(contestant.name.startswith(name) for contestant in CONTESTANTS):
            known = ", ".join(contestant.name for contestant in CONTESTANTS)
            raise ValueError(f"no contestant is called {name!r}: {known}")
    return [one for one in CONTESTANTS if not names or one.name.startswith(tuple(names))]
