"""Families about workers: what each carries, how it does, what it has served. They go with the worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.worker import ROLES, Worker
from warmroute.telemetry.families import worker_counter, worker_gauge
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.worker_totals import WorkerTotals

WORKER_STATES = ("starting", "healthy", "unhealthy", "paused", "draining")


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How a member of the fleet does. `routable`: it may get a new request."""

    role: str
    worker: str
    state: str
    routable: bool


def worker_families(
    metrics: Metrics, ledger: Ledger, workers: Iterable[Worker], states: Iterable[WorkerState]
) -> Iterator[Metric]:
    """All of them."""
    yield from _loads(ledger, workers)
    yield from _states(states)
    yield from _served(metrics, workers)


def _loads(ledger: Ledger, workers: Iterable[Worker]) -> Iterator[Metric]:
    leases = GaugeMetricFamily(
        "warmroute_leases_open", "Requests that hold a place on a worker, by role.", labels=("role",)
    )
    for role in ROLES:
        leases.add_metric((role,), ledger.leases_open(role))
    yield leases

    # A removed worker and its successor can share an id while old leases are open: one series, the sum of both.
    running: Counter[tuple[str, str]] = Counter()
    pending: Counter[tuple[str, str]] = Counter()
    for worker in workers:
        running[worker.role, worker.id] += worker.load.running_requests
        pending[worker.role, worker.id] += worker.load.pending_prefill_tokens
    yield worker_gauge("warmroute_running_requests", "Requests that run on a worker.", running)
    yield worker_gauge(
        "warmroute_pending_prefill_tokens", "Uncached prompt tokens sent to a worker, no answer begun.", pending
    )


def _states(states: Iterable[WorkerState]) -> Iterator[Metric]:
    states = tuple(states)
    counts = Counter((state.role, state.state) for state in states)
    family = GaugeMetricFamily("warmroute_workers", "Known workers, by role and state.", labels=("role", "state"))
    for role in ROLES:
        for state in WORKER_STATES:
            family.add_metric((role, state), counts[role, state])
    yield family
    yield worker_gauge(
        "warmroute_worker_routable",
        "1 if the worker may get a new request, else 0.",
        {(state.role, state.worker): float(state.routable) for state in states},
    )


def _served(metrics: Metrics, workers: Iterable[Worker]) -> Iterator[Metric]:
    totals = {worker.id: WorkerTotals(worker.role) for worker in workers} | metrics.workers
    yield _summary(
        "warmroute_worker_time_to_first_token_seconds",
        "Times to first token of what a worker has served.",
        totals,
        lambda of: (of.first_tokens, of.first_tokens_seconds),
    )
    yield _summary(
        "warmroute_worker_inter_token_seconds",
        "Mean times between two pieces of the streams of a worker, one value for each request.",
        totals,
        lambda of: (of.inter_tokens, of.inter_token_seconds),
    )
    for name, documentation in (
        ("prompt_tokens", "Tokens of the prompts that a worker has served."),
        ("matched_tokens", "Those of them that it was believed to hold already."),
        ("reported_prompt_tokens", "Prompt tokens by the worker's own count, where it tells its cached tokens."),
        ("cached_tokens", "Those of them that it found in its cache."),
    ):
        values = {(of.role, worker): getattr(of, name) for worker, of in totals.items()}
        yield worker_counter(f"warmroute_worker_{name}", documentation, values)


def _summary(
    name: str,
    documentation: str,
    totals: dict[str, WorkerTotals],
    read: Callable[[WorkerTotals], tuple[int, float]],
) -> Metric:
    family = SummaryMetricFamily(name, documentation, labels=("role", "worker"))
    served = {of.role for of in totals.values()}
    for role in ROLES:
        if role not in served:
            family.add_metric((role, ""), 0, 0.0)
    for worker, of in sorted(totals.items()):
        count, seconds = read(of)
        family.add_metric((of.role, worker), count, seconds)
    return family
