"""The part of the Prometheus page that tells what went wrong with requests."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from warmroute.telemetry.families import counter
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
    yield counter(
        "warmroute_failed_attempts",
        "Attempts at a request on one worker that failed, by reason.",
        "reason",
        dict.fromkeys(FAILURES, 0) | metrics.failed_attempts,
    )
    yield counter(
        "warmroute_failovers",
        "Attempts on another worker, by the reason why the one before failed.",
        "reason",
        dict.fromkeys(FAILURES, 0) | metrics.failovers,
    )
    yield counter(
        "warmroute_broken_streams",
        "Event streams that broke after the client had a part of them, by reason.",
        "reason",
        dict.fromkeys(BREAKS, 0) | metrics.broken_streams,
    )
    yield counter(
        "warmroute_deadlines",
        "Deadlines that were over, by deadline; client_idle and upstream_idle close unused connections: no fault.",
        "deadline",
        dict.fromkeys(DEADLINES, 0) | metrics.deadlines,
    )
    yield CounterMetricFamily(
        "warmroute_retries_denied",
        "Requests that got a 5xx answer passed on because the retry budget was spent.",
        metrics.retries_denied,
    )
