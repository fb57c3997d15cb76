"""Shows results as tables: one for each trace and rate, a row for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from warmroute.replay.result import Result
from warmroute.simulation.load.records import Spread

COLUMNS: Sequence[tuple[str, Callable[[Result], str]]] = (
    ("TTFT mean, s", lambda r: _seconds(r.first_token, "mean")),
    ("p50", lambda r: _seconds(r.first_token, "p50")),
    ("p90", lambda r: _seconds(r.first_token, "p90")),
    ("p99", lambda r: _seconds(r.first_token, "p99")),
    ("end to end p50", lambda r: _seconds(r.total, "p50")),
    ("p99", lambda r: _seconds(r.total, "p99")),
    ("ms/token", lambda r: "-" if r.per_token is None else f"{r.per_token.mean * 1000:.1f}"),
    ("cached", lambda r: f"{r.hit_share:.1%}"),
    ("max/mean load", lambda r: f"{r.imbalance:.2f}"),
    ("refused", lambda r: str(r.refused)),
)
"""Heading and text of each figure; load is uncached prompt tokens per worker."""


def print_results(console: Console, results: Sequence[Result]) -> None:
    """Print one table for each trace and rate, in the order of the results."""
    for _, group in groupby(results, key=lambda result: (result.trace, result.rate)):
        rows = list(group)
        table = Table(title=title_of(rows[0]), title_justify="left")
        table.add_column("policy", no_wrap=True)
        for heading, _ in COLUMNS:
            table.add_column(heading, justify="right")
        for result in rows:
            table.add_row(result.policy, *(show(result) for _, show in COLUMNS))
        console.print(table)


def title_of(result: Result) -> str:
    """What a table of this result and those beside it is about."""
    return f"{result.trace}, x{result.rate:g}: {len(result.requests)} requests, {_engines(result)}"


def _engines(result: Result) -> str:
    roles = [name.split("-")[0] for name in result.workers]
    return " and ".join(f"{roles.count(role)} {role} engines" for role in dict.fromkeys(roles))


def _seconds(spread: Spread | None, name: str) -> str:
    return "-" if spread is None else f"{getattr(spread, name):.3f}"
