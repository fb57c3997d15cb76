"""Results as a table for people and as JSON for machines."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import Growth, Row
from benchmarks.mock_worker import CHUNKS
from benchmarks.scenarios import MEMORY_TARGET_BYTES, REQUESTS, STREAM, Scenario

OURS = "warmroute"
PEER = "sglang-router"
DIRECT = "direct"
BASE = REQUESTS[0]
"""The plain request that a streamed one is compared with."""


@dataclass
class Results:
    """Rows by scenario name and router name; memory by router name."""

    versions: dict[str, str]
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    memory: dict[str, Growth] = field(default_factory=dict)

    def row(self, scenario: Scenario, router: str) -> Row:
        """The row to fill."""
        return self.rows.setdefault(scenario.name, {}).setdefault(router, Row())

    @property
    def valid(self) -> bool:
        """Whether no answer of any run was wrong."""
        rows = [row for by_router in self.rows.values() for row in by_router.values()]
        return all(row.valid for row in rows) and not any(growth.failed for growth in self.memory.values())


@dataclass(frozen=True)
class Verdict:
    """One line of the comparison: microseconds by router, and ours as a share of the peer's."""

    name: str
    unit: str
    cost_us: Mapping[str, float]
    ratio: float | None
    target: float

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a ratio."""
        return None if self.ratio is None else self.ratio <= self.target


def verdicts(results: Results) -> list[Verdict]:
    """The comparison, by scenario. A router with a wrong answer has no ratio."""
    lines = []
    for scenario in (*REQUESTS, STREAM):
        rows = results.rows.get(scenario.name, {})
        runs = {name: costs(results, scenario, name) for name, row in rows.items() if row.valid and name != DIRECT}
        ratio = None
        if OURS in runs and PEER in runs:
            # Neighbours in time share the machine's mood, so the ratios are taken pair by pair.
            ratio = statistics.median(ours / peer for ours, peer in zip(runs[OURS], runs[PEER], strict=True))
        medians = {name: statistics.median(values) for name, values in runs.items()}
        lines.append(Verdict(scenario.name, "chunk" if scenario.stream else "request", medians, ratio, scenario.target))
    return lines


def costs(results: Results, scenario: Scenario, router: str) -> list[float]:
    """CPU microseconds of each run: per request, or per chunk beyond what a plain request costs."""
    row = results.rows[scenario.name][router]
    if not scenario.stream:
        return row.cpu_us
    plain = results.rows[BASE.name][router].median_us
    return [(cpu_us - plain) / CHUNKS for cpu_us in row.cpu_us]


def tables(results: Results) -> list[Table]:
    """The tables to print."""
    routers = [name for name in results.versions if name != "python"]
    cpu = Table(title="Router CPU time, microseconds (median of the runs)", title_justify="left")
    for title in ("", *routers, "ratio", "target", ""):
        cpu.add_column(title, justify="left" if not title else "right")
    for line in verdicts(results):
        cells = [f"{line.cost_us[name]:.1f}" if name in line.cost_us else "-" for name in routers]
        ratio = "-" if line.ratio is None else f"{line.ratio:.2f}"
        cpu.add_row(f"{line.name}, per {line.unit}", *cells, ratio, f"<= {line.target:.2f}", _met(line.met))
    return [cpu, _throughput(results), *([_memory(results)] if results.memory else [])]


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
