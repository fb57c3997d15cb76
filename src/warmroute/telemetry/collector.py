"""The Prometheus page: counters from `Metrics`, gauges read from their owners at the moment of the scrape."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import ROLES, Role, Worker
from warmroute.telemetry.failures import counter_family, failure_families
from warmroute.telemetry.metrics import TTFT_BUCKETS, Metrics

logger = logging.getLogger(__name__)

_ALONE_REASONS = ("cached", "no_prefill", "other_path")
"""The reasons that are there from the start; dialects have more."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the values of a page come from.

    `workers` yields every worker that is known; those that only hold leases still are found in the ledger.
    `policy_name` names the policy of a role. `upstream_connections` is the number of open connections to workers.
    """

    metrics: Metrics
    ledger: Ledger
    index: PrefixIndex
    workers: Callable[[], Iterable[Worker]]
    policy_name: Callable[[Role], str]
    upstream_connections: Callable[[], int]

    def all_workers(self) -> set[Worker]:
        """Every worker that is known or still holds a lease."""
        return {*self.workers(), *self.ledger.workers()}


class RouterCollector(Collector):
    """Renders one router's families. No state of its own but the last audit result, to log a change once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._was_consistent = True

    def collect(self) -> Iterator[Metric]:
        """Yield every family of the router, each with samples from the very first scrape on."""
        workers = self._sources.all_workers()
        self._sources.metrics.keep_workers({worker.id for worker in workers})
        yield self._requests(workers)
        yield from self._loads(workers)
        yield from self._tokens()
        yield from self._index()
        yield self._time_to_first_token()
        yield from self._disaggregation(workers)
        yield from failure_families(self._sources.metrics)
        yield GaugeMetricFamily(
            "warmroute_upstream_connections",
            "Open connections to workers, busy and idle.",
            self._sources.upstream_connections(),
        )
        yield GaugeMetricFamily(
            "warmroute_ledger_consistent",
            "1 if every load equals what the open leases add up to, else 0.",
            float(self._audit()),
        )
        yield CounterMetricFamily(
            "warmroute_leases_lost",
            "Requests that were given back because nothing held them any more, without being ended.",
            self._sources.ledger.lost_leases,
        )

    def _requests(self, workers: Iterable[Worker]) -> Metric:
        counts = self._sources.metrics.requests
        for worker in workers:
            # A counter that starts at 0 lets rate() see its first increase.
            counts.setdefault((self._sources.policy_name(worker.role), worker.role, worker.id, 200), 0)
        family = CounterMetricFamily(
            "warmroute_requests",
            "Inference requests answered, by policy, role, worker (empty: none was chosen) and status.",
            labels=("policy", "role", "worker", "status"),
        )
        for (policy, role, worker_id, status), count in sorted(counts.items()):
            family.add_metric((policy, role, worker_id, str(status)), count)
        return family

    def _loads(self, workers: Iterable[Worker]) -> Iterator[Metric]:
        leases = GaugeMetricFamily(
            "warmroute_leases_open", "Requests that hold a place on a worker, by role.", labels=("role",)
        )
        for role in ROLES:
            leases.add_metric((role,), self._sources.ledger.leases_open(role))
        yield leases

        # A removed worker and its successor can share an id while old leases are open: one series, the sum of both.
        running: Counter[tuple[str, str]] = Counter()
        pending: Counter[tuple[str, str]] = Counter()
        for worker in workers:
            running[worker.role, worker.id] += worker.load.running_requests
            pending[worker.role, worker.id] += worker.load.pending_prefill_tokens
        yield _per_worker("warmroute_running_requests", "Requests that run on a worker.", running)
        yield _per_worker(
            "warmroute_pending_prefill_tokens", "Uncached prompt tokens sent to a worker, no answer begun.", pending
        )

    def _tokens(self) -> Iterator[Metric]:
        metrics = self._sources.metrics
        yield CounterMetricFamily(
            "warmroute_prompt_tokens", "Tokens of the prompts that were answered.", metrics.prompt_tokens
        )
        yield CounterMetricFamily(
            "warmroute_matched_tokens",
            "Prompt tokens that the chosen worker was believed to hold already.",
            metrics.matched_tokens,
        )
        yield CounterMetricFamily(
            "warmroute_reported_prompt_tokens",
            "Prompt tokens of the answers whose usage told how many of them were cached.",
            metrics.reported_prompt_tokens,
        )
        yield CounterMetricFamily(
            "warmroute_reported_cached_tokens",
            "Those of them that were cached, as the engines say.",
            metrics.reported_cached_tokens,
        )
        yield CounterMetricFamily(
            "warmroute_reported_believed_tokens",
            "Those of them that the worker was believed to hold when it was chosen.",
            metrics.reported_believed_tokens,
        )

    def _index(self) -> Iterator[Metric]:
        index = self._sources.index
        yield GaugeMetricFamily(
            "warmroute_prefix_index_bytes", "Memory that the prefix index takes, by its own books.", index.size_bytes
        )
        yield CounterMetricFamily(
            "warmroute_prefix_index_evicted_blocks",
            "Blocks that the prefix index forgot for lack of room, counted for each worker that held them.",
            index.evictions,
        )
        yield CounterMetricFamily(
            "warmroute_prefix_index_disproved_blocks",
            "Blocks that the prefix index forgot because answers showed that the engine had evicted them.",
            index.disproved,
        )

    def _time_to_first_token(self) -> Metric:
        metrics = self._sources.metrics
        bounds = [*map(str, TTFT_BUCKETS), "+Inf"]
        return HistogramMetricFamily(
            "warmroute_time_to_first_token_seconds",
            "From the complete request to the first body byte of the worker's answer.",
            buckets=list(zip(bounds, accumulate(metrics.ttft_counts), strict=True)),
            sum_value=metrics.ttft_sum,
        )

    def _disaggregation(self, workers: Iterable[Worker]) -> Iterator[Metric]:
        metrics = self._sources.metrics
        recomputed = {worker.id: 0 for worker in workers if worker.role == "prefill"} | metrics.recomputed
        yield counter_family(
            "warmroute_pd_recomputed",
            "Answers of a prefill worker that handed nothing over: the decode worker computed the prompt again.",
            "worker",
            recomputed or {"": 0},
        )
        yield counter_family(
            "warmroute_pd_decode_alone",
            "Requests that went to a decode worker without a prefill worker, by reason.",
            "reason",
            dict.fromkeys(_ALONE_REASONS, 0) | metrics.decode_alone,
        )

    def _audit(self) -> bool:
        audit = self._sources.ledger.audit()
        if self._was_consistent and not audit.consistent:
            logger.error("ledger is not consistent: %s", "; ".join(audit.problems))
        self._was_consistent = audit.consistent
        return audit.consistent


def _per_worker(name: str, documentation: str, values: Counter[tuple[str, str]]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=("role", "worker"))
    served = {role for role, _ in values}
    # A role without workers shows a 0 with no worker, so that a query or an alert never finds nothing at all.
    idle = [((role, ""), 0) for role in ROLES if role not in served]
    for labels, value in sorted([*values.items(), *idle]):
        family.add_metric(labels, value)
    return family


def create_registry(sources: Sources) -> CollectorRegistry:
    """A registry of this router alone (two routers in one process share nothing), with the usual process metrics."""
    registry = CollectorRegistry()
    registry.register(RouterCollector(sources))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
