"""Families about requests: how many, how they ended, how long they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from warmroute.scheduling.worker import Role, Worker
from warmroute.telemetry.families import counter, histogram
from warmroute.telemetry.metrics import Metrics

_DROP_REASONS = ("full", "timeout", "client_left", "cancelled")


def request_families(
    metrics: Metrics, workers: Iterable[Worker], policy_name: Callable[[Role], str]
) -> Iterator[Metric]:
    """All of them; those that nothing is recorded for are left out."""
    yield from _edge(metrics)
    yield from _queue(metrics)
    if metrics.records:
        yield _requests(metrics, workers, policy_name)
        yield from _times(metrics)
        yield from _tokens(metrics)


def _edge(metrics: Metrics) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "warmroute_requests_received", "Inference requests that came: answered and running.", metrics.received
    )
    yield CounterMetricFamily("warmroute_requests_answered", "Inference requests that are over.", metrics.answered)
    yield GaugeMetricFamily(
        "warmroute_requests_running",
        "Inference requests that have come and are not over.",
        metrics.received - metrics.answered,
    )


def _requests(metrics: Metrics, workers: Iterable[Worker], policy_name: Callable[[Role], str]) -> Metric:
    counts = metrics.requests
    for worker in workers:
        # A counter that starts at 0 lets rate() see its first increase.
        counts.setdefault((policy_name(worker.role), worker.role, worker.id, 200, "served"), 0)
    family = CounterMetricFamily(
        "warmroute_requests",
        "Inference requests that are over, by policy, role, worker (empty: none was chosen), status and outcome.",
        labels=("policy", "role", "worker", "status", "outcome"),
    )
    for (policy, role, worker_id, status, outcome), count in sorted(counts.items()):
        family.add_metric((policy, role, worker_id, str(status), outcome), count)
    return family


def _queue(metrics: Metrics) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "warmroute_queue_length", "Requests that wait for a place on a worker.", metrics.queue_length
    )
    yield histogram(
        "warmroute_queue_wait_seconds", "How long requests waited for a place that they got.", metrics.queue_wait
    )
    yield counter(
        "warmroute_queue_dropped",
        "Requests that got no place, by reason.",
        "reason",
        dict.fromkeys(_DROP_REASONS, 0) | metrics.queue_drops,
    )


def _times(metrics: Metrics) -> Iterator[Metric]:
    yield histogram(
        "warmroute_time_to_first_token_seconds",
        "From the complete request to the first body byte of the worker's answer.",
        metrics.ttft,
    )
    yield histogram(
        "warmroute_inter_token_seconds",
        "Mean time between two pieces of a streamed answer, one value for each request.",
        metrics.inter_token,
    )
    yield histogram(
        "warmroute_request_duration_seconds",
        "From the complete request to the end of an answer that was served.",
        metrics.duration,
    )
    yield histogram(
        "warmroute_router_added_seconds",
        "From the complete request to its being on the way to the worker that served it, failed attempts included.",
        metrics.added,
    )


def _tokens(metrics: Metrics) -> Iterator[Metric]:
    for name, documentation, value in (
        ("prompt_tokens", "Tokens of the prompts that were answered.", metrics.prompt_tokens),
        (
            "matched_tokens",
            "Prompt tokens that the chosen worker was believed to hold already.",
            metrics.matched_tokens,
        ),
        (
            "reported_prompt_tokens",
            "Prompt tokens, by the engines' count, of the answers whose usage told how many of them were cached.",
            metrics.reported_prompt_tokens,
        ),
        (
            "reported_cached_tokens",
            "Prompt tokens of the same answers that were cached, as the engines say.",
            metrics.reported_cached_tokens,
        ),
        (
            "reported_believed_tokens",
            "Prompt tokens of the same answers that the worker was believed to hold when it was chosen.",
            metrics.reported_believed_tokens,
        ),
        (
            "reported_error_tokens",
            "Difference between believed and cached tokens of each of the same answers, without its sign.",
            metrics.reported_error_tokens,
        ),
    ):
        yield CounterMetricFamily(f"warmroute_{name}", documentation, value)
