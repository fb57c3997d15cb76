"""Results as a table for people and as JSON for machines."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import Row
from benchmarks.results import MIXED, OURS, PEER, UNWATCHED, VLLM, WATCHED, Results, Verdict, verdicts
from benchmarks.scenarios import MEMORY_TARGET_BYTES, PAIR_SCENARIOS


def tables(results: Results) -> list[Table]:
    """The tables to print."""
    lines = verdicts(results)
    pairs = {scenario.name for scenario in PAIR_SCENARIOS}
    telemetry = [line for line in lines if line.against == UNWATCHED]
    mixed = [line for line in lines if line.name not in pairs and line not in telemetry]
    to_peer = [line for line in lines if line.name in pairs and line.against == PEER]
    to_mixed = [line for line in lines if line.against == MIXED]
    shown = (
        ("Router CPU time, microseconds (median of the runs)", [*results.versions], mixed),
        ("The same with pairs of prefill and decode workers", [OURS, PEER], to_peer),
        ("Pairs and mixed workers (the ratio is theirs), and pairs that work in turn", [OURS, MIXED, VLLM], to_mixed),
        ("What telemetry costs", [WATCHED, UNWATCHED], telemetry),
    )
    compared = [_comparison(title, routers, lines) for title, routers, lines in shown if lines]
    return [*compared, _throughput(results), *([_memory(results)] if results.memory else [])]


def _comparison(title: str, routers: Sequence[str], lines: Sequence[Verdict]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", *routers, "ratio", "target", ""):
        table.add_column(column, justify="right" if column else "left")
    for line in lines:
        cells = [f"{line.cost_us[name]:.1f}" if name in line.cost_us else "-" for name in routers]
        ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
        table.add_row(f"{line.name}, per {line.unit}", *cells, ratio, f"<= {line.target:.2f}", _met(line.met))
    return table


def _throughput(results: Results) -> Table:
    table = Table(title="Requests per second in these runs, one process (share of its core used)", title_justify="left")
    names = list(dict.fromkeys(name for rows in results.rows.values() for name in rows))
    for title in ("", *names):
        table.add_column(title, justify="left" if not title else "right")
    for scenario, rows in results.rows.items():
        table.add_row(scenario, *(_rate(rows[name]) if name in rows else "-" for name in names))
    return table


def _rate(row: Row) -> str:
    if not row.valid:
        return f"[red]INVALID: {row.failed} failed[/red]"
    return f"{statistics.median(row.requests_per_second):,.0f} ({statistics.median(row.busy):.0%})"


def _memory(results: Results) -> Table:
    table = Table(title="Resident memory, MB: 2,000 unique 32 KB prompts", title_justify="left")
    for title in ("", "before", "after", "growth", "target", ""):
        table.add_column(title, justify="left" if not title else "right")
    for name, growth in results.memory.items():
        ours = name == OURS
        shown = [f"{value / 1e6:.1f}" for value in (growth.before, growth.after, growth.bytes)]
        met = growth.bytes <= MEMORY_TARGET_BYTES and not growth.failed if ours else None
        table.add_row(name, *shown, f"<= {MEMORY_TARGET_BYTES / 1e6:.0f}" if ours else "", _met(met))
    return table


def _met(met: bool | None) -> str:
    return {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}[met]


def as_json(results: Results, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was measured, every single run included."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "load_average": os.getloadavg(),
        },
        "versions": {"python": platform.python_version(), **results.versions},
        "settings": dict(settings),
        "valid": results.valid,
        "comparison": [{**asdict(line), "met": line.met} for line in verdicts(results)],
        "runs": {
            scenario: {name: asdict(row) for name, row in rows.items()} for scenario, rows in results.rows.items()
        },
        "memory": {name: {**asdict(growth), "growth": growth.bytes} for name, growth in results.memory.items()},
        "memory_target": MEMORY_TARGET_BYTES,
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
