"""Shows summaries of load runs as a table, one column for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from warmroute.simulation.load.records import Spread, Summary

Row = tuple[str, Callable[[Summary], str]]


def print_table(
    console: Console, runs: Mapping[str, Summary], title: str, more: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print the runs side by side. `runs` maps the heading of a column to what was measured.

    `more` are further rows: their label, and a text for each run.
    """
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in runs:
        table.add_column(heading, justify="right")
    for label, show in _rows(runs):
        table.add_row(label, *(show(summary) for summary in runs.values()))
    for label, texts in (more or {}).items():
        table.add_row(label, *texts)
    console.print(table)


def _rows(runs: Mapping[str, Summary]) -> list[Row]:
    rows: list[Row] = [
        ("requests", lambda s: str(s.requests)),
        ("failed", lambda s: str(s.failed)),
    ]
    rows += [_error_row(kind) for kind in dict.fromkeys(kind for summary in runs.values() for kind in summary.errors)]
    if any(summary.not_sent for summary in runs.values()):
        rows.append(("not sent", lambda s: str(s.not_sent)))
    rows += [
        ("duration", lambda s: f"{s.elapsed_seconds:.1f} s"),
        ("cached share of prompt", lambda s: "-" if s.cached_share is None else f"{s.cached_share:.1%}"),
        ("TTFT p50 / p90 / p99, ms", lambda s: _milliseconds(s.first_token, "p50", "p90", "p99")),
        ("TTFT mean, ms", lambda s: _milliseconds(s.first_token, "mean")),
        ("end to end p50 / p99, ms", lambda s: _milliseconds(s.total, "p50", "p99")),
        ("output tokens per second", lambda s: f"{s.output_tokens_per_second:.0f}"),
        ("requests per worker", lambda s: " ".join(str(n) for n in s.workers.values()) or "-"),
        ("busiest worker / mean", lambda s: "-" if s.busiest_over_mean is None else f"{s.busiest_over_mean:.2f}"),
    ]
    return rows


def _error_row(kind: str) -> Row:
    return f"  {kind}", lambda summary: str(summary.errors.get(kind, 0))


def _milliseconds(spread: Spread | None, *names: str) -> str:
    if spread is None:
        return "-"
    return " / ".join(f"{getattr(spread, name) * 1000:.0f}" for name in names)
