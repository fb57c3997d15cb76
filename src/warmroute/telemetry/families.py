"""The shapes that metric families come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from warmroute.scheduling.worker import ROLES
from warmroute.telemetry.histogram import BufferedHistogram, Histogram

WorkerValues = Mapping[tuple[str, str], float]
"""By (role, worker id)."""


def counter(name: str, documentation: str, label: str, values: Mapping[str, float]) -> Metric:
    """A counter with one label."""
    family = CounterMetricFamily(name, documentation, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family


def worker_gauge(name: str, documentation: str, values: WorkerValues) -> Metric:
    """A gauge of each worker."""
    family = GaugeMetricFamily(name, documentation, labels=("role", "worker"))
    for labels, value in with_idle_roles(values):
        family.add_metric(labels, value)
    return family


def worker_counter(name: str, documentation: str, values: WorkerValues) -> Metric:
    """A counter of each worker."""
    family = CounterMetricFamily(name, documentation, labels=("role", "worker"))
    for labels, value in with_idle_roles(values):
        family.add_metric(labels, value)
    return family


def histogram(name: str, documentation: str, values: Histogram | BufferedHistogram) -> Metric:
    """A histogram without labels."""
    bounds = [*map(str, values.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(values.counts), strict=True))
    return HistogramMetricFamily(name, documentation, buckets=buckets, sum_value=values.sum)


def with_idle_roles(values: WorkerValues) -> Iterable[tuple[tuple[str, str], float]]:
    """The values, sorted, and a 0 with no worker for each role that has none."""
    served = {role for role, _ in values}
    # A role without workers shows a 0 with no worker, so that a query or an alert never finds nothing at all.
    idle = [((role, ""), 0.0) for role in ROLES if role not in served]
    return sorted([*values.items(), *idle])
