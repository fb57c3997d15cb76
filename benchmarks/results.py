"""From runs to ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.answers import CHUNKS
from benchmarks.measure import Growth, Row
from benchmarks.scenarios import MIXED_SCENARIOS, PAIR_SCENARIOS, PAIR_TARGET, TELEMETRY_SCENARIOS, Scenario

OURS = "warmroute"
PEER = "sglang-router"
DIRECT = "direct"
MIXED = "warmroute-mixed"
"""Ours in front of mixed workers, beside the same with pairs."""
VLLM = "warmroute-vllm"
"""Ours in front of pairs that get a request in turn."""
WATCHED = "telemetry on"
UNWATCHED = "telemetry off"


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
    """One line of a comparison: microseconds by router, and our cost as a share of that of the router `against`."""

    name: str
    unit: str
    cost_us: Mapping[str, float]
    against: str
    ratio: float | None
    target: float

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a ratio."""
        return None if self.ratio is None else self.ratio <= self.target


def verdicts(results: Results) -> list[Verdict]:
    """All comparisons, by scenario. A router with a wrong answer has no ratio."""
    lines = []
    for scenario in (*MIXED_SCENARIOS, *PAIR_SCENARIOS):
        if scenario.name not in results.rows:
            continue
        lines.append(_compare(results, scenario, PEER, scenario.target))
        if scenario.pairs and not scenario.stream:
            lines.append(_compare(results, scenario, MIXED, PAIR_TARGET))
    return lines + [
        _compare(results, scenario, UNWATCHED, scenario.target, WATCHED)
        for scenario in TELEMETRY_SCENARIOS
        if scenario.name in results.rows
    ]


def _compare(results: Results, scenario: Scenario, against: str, target: float, who: str = OURS) -> Verdict:
    rows = results.rows[scenario.name]
    runs = {name: costs(results, scenario, name) for name, row in rows.items() if row.valid and name != DIRECT}
    ratio = None
    if who in runs and against in runs:
        # Neighbours in time share the machine's mood, so the ratios are taken pair by pair.
        ratio = statistics.median(ours / other for ours, other in zip(runs[who], runs[against], strict=True))
    medians = {name: statistics.median(values) for name, values in runs.items()}
    return Verdict(scenario.name, "chunk" if scenario.stream else "request", medians, against, ratio, target)


def costs(results: Results, scenario: Scenario, router: str) -> list[float]:
    """CPU microseconds of each run: per request, or per chunk beyond what a plain request costs."""
    row = results.rows[scenario.name][router]
    if not scenario.stream:
        return row.cpu_us
    plain = results.rows[scenario.plain][router].median_us
    return [(cpu_us - plain) / CHUNKS for cpu_us in row.cpu_us]
