"""Shows results as tables: one for each trace and rate, a row for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from warmroute.replay.result import Result
from warmroute.simulation.load.records import Spread

_Column = tuple[str, Callable[[Result], str]]

GROUPS: Sequence[Sequence[_Column]] = (
    (
        ("TTFT mean, s", lambda r: _seconds(r.first_token, "mean")),
        ("p50", lambda r: _seconds(r.first_token, "p50")),
        ("p90", lambda r: _seconds(r.first_token, "p90")),
        ("p99", lambda r: _seconds(r.first_token, "p99")),
    ),
    (
        ("end to end p50", lambda r: _seconds(r.total, "p50")),
        ("p99", lambda r: _seconds(r.total, "p99")),
    ),
    (("ms/token", lambda r: "-" if r.per_token is None else f"{r.per_token.mean * 1000:.1f}"),),
    (("cached", lambda r: f"{r.hit_share:.1%}"),),
    (("max/mean load", lambda r: f"{r.imbalance:.2f}"),),
    (("refused", lambda r: str(r.refused)),),
)
"""Heading and text of each figure, those together that are read together; load is uncached prompt tokens per worker."""
COLUMNS: Sequence[_Column] = [column for group in GROUPS for column in group]


def print_results(console: Console, results: Sequence[Result]) -> None:
    """Print one table for each trace and rate, in the order of the results; where it is too wide, in several parts."""
    for _, group in groupby(results, key=lambda result: (result.trace, result.rate)):
        rows = list(group)
        title: str | None = title_of(rows[0])
        for columns in _parts(console, rows):
            console.print(_table(title, rows, columns))
            title = None


def _parts(console: Console, rows: Sequence[Result]) -> list[list[_Column]]:
    """The columns, in as many parts as it takes for none to be cut."""
    parts: list[list[_Column]] = [[]]
    roomy = console.options.update(width=1000)
    for group in GROUPS:
        wider = _table(None, rows, [*parts[-1], *group])
        if parts[-1] and Measurement.get(console, roomy, wider).maximum > console.width:
            parts.append([])
        parts[-1] += group
    return parts


def _table(title: str | None, rows: Sequence[Result], columns: Sequence[_Column]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("policy", no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for result in rows:
        table.add_row(result.policy, *(show(result) for _, show in columns))
    return table


def title_of(result: Result) -> str:
    """What a table of this result and those beside it is about."""
    return f"{result.trace}, x{result.rate:g}: {len(result.requests)} requests, {_engines(result)}"


def _engines(result: Result) -> str:
    roles = [name.split("-")[0] for name in result.workers]
    return " and ".join(f"{roles.count(role)} {role} engines" for role in dict.fromkeys(roles))


def _seconds(spread: Spread | None, name: str) -> str:
    return "-" if spread is None else f"{getattr(spread, name):.3f}"
