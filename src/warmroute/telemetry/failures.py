"""The part of the Prometheus page that tells what went wrong with requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric

from warmroute.telemetry.metrics import Metrics

# The values that are there from the first scrape on; there are no others.
FAILURES = (
    "back_pressure",
    "bad_response",
    "broken_stream",
    "connect_timeout",
    "first_byte_timeout",
    "frozen",
    "lost",
    "refused",
    "server_error",
    "silent",
    "unfinished",
)
BREAKS = ("bad_response", "lost", "silent", "unfinished")
DEADLINES = (
    "client_idle",
    "client_read",
    "client_unread",
    "connect",
    "first_byte",
    "request",
    "stream_idle",
    "upstream_idle",
)


def failure_families(metrics: Metrics) -> Iterator[Metric]:
    """Failed attempts, what followed, broken streams, deadlines."""
    yield counter_family(
        "warmroute_failed_attempts",
        "Attempts at a request on one worker that failed, by reason.",
        "reason",
        dict.fromkeys(FAILURES, 0) | metrics.failed_attempts,
    )
    yield counter_family(
        "warmroute_failovers",
        "Attempts on another worker, by the reason why the one before failed.",
        "reason",
        dict.fromkeys(FAILURES, 0) | metrics.failovers,
    )
    yield counter_family(
        "warmroute_broken_streams",
        "Event streams that broke after the client had a part of them, by reason.",
        "reason",
        dict.fromkeys(BREAKS, 0) | metrics.broken_streams,
    )
    yield counter_family(
        "warmroute_deadlines",
        "Deadlines that were over, by deadline.",
        "deadline",
        dict.fromkeys(DEADLINES, 0) | metrics.deadlines,
    )
    yield CounterMetricFamily(
        "warmroute_retries_denied",
        "Requests that got a 5xx answer passed on because the retry budget was spent.",
        metrics.retries_denied,
    )


def counter_family(name: str, documentation: str, label: str, values: Mapping[str, int]) -> Metric:
    """A counter with one label."""
    family = CounterMetricFamily(name, documentation, labels=(label,))
    for value, count in sorted(values.items()):
        family.add_metric((value,), count)
    return family
