"""Families about workers: what each carries, how it does, what it has served. They go with the worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.worker import ROLES, Tally, Worker
from warmroute.telemetry.families import WorkerValues, with_idle_roles, worker_counter, worker_gauge

WORKER_STATES = ("starting", "healthy", "unhealthy", "paused", "draining")


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How a member of the fleet does. `routable`: it may get a new request."""

    role: str
    worker: str
    state: str
    routable: bool


def worker_families(ledger: Ledger, workers: Iterable[Worker], states: Iterable[WorkerState]) -> Iterator[Metric]:
    """All of them."""
    yield from _loads(ledger, workers)
    yield from _states(states)
    yield from _served(workers)


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


def _served(workers: Iterable[Worker]) -> Iterator[Metric]:
    tallies: dict[tuple[str, str], list[Tally]] = {}
    for worker in workers:
        tallies.setdefault((worker.role, worker.id), []).append(worker.tally)
    yield _summary(
        "warmroute_worker_time_to_first_token_seconds",
        "Times to first token of a worker; of a prefill worker, until it has computed the prompt.",
        _sums(tallies, "first_tokens"),
        _sums(tallies, "ttft_seconds"),
    )
    yield _summary(
        "warmroute_worker_inter_token_seconds",
        "Mean times between two pieces of the streams of a worker, one value for each request.",
        _sums(tallies, "streams"),
        _sums(tallies, "inter_token_seconds"),
    )
    for name, documentation in (
        ("prompt_tokens", "Tokens of the prompts that a worker was given to compute."),
        ("matched_tokens", "Prompt tokens that a worker was given and was believed to hold already."),
        (
            "reported_prompt_tokens",
            "Prompt tokens by the worker's own count, of the answers that tell its cached tokens.",
        ),
        ("reported_cached_tokens", "Prompt tokens that a worker reports to have found in its cache."),
    ):
        yield worker_counter(f"warmroute_worker_{name}", documentation, _sums(tallies, name))


def _sums(tallies: Mapping[tuple[str, str], Sequence[Tally]], name: str) -> dict[tuple[str, str], float]:
    return {labels: sum(getattr(tally, name) for tally in of) for labels, of in tallies.items()}


def _summary(name: str, documentation: str, counts: WorkerValues, seconds: WorkerValues) -> Metric:
    family = SummaryMetricFamily(name, documentation, labels=("role", "worker"))
    for labels, count in with_idle_roles(counts):
        family.add_metric(labels, int(count), seconds.get(labels, 0.0))
    return family
