"""The Prometheus page: counters from `Metrics`, gauges read from their owners at the moment of the scrape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Role, Worker
from warmroute.telemetry.failures import failure_families
from warmroute.telemetry.families import counter, histogram, worker_gauge
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics
from warmroute.telemetry.kv_counts import KvCounts
from warmroute.telemetry.kv_families import kv_families
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.request_families import request_families
from warmroute.telemetry.worker_families import WorkerState, worker_families

logger = logging.getLogger(__name__)

_ALONE_REASONS = ("cached", "no_prefill", "other_path")
"""The reasons that are there from the start; dialects have more."""


BreakerRow = tuple[Role, str, str, int]

_BREAKER_VALUES = {"closed": 0, "half_open": 1, "trying": 1, "open": 2}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the values of a page come from.

    `workers` yields every worker that is known; those that only hold leases still are found in the ledger.
    `policy_name` names the policy of a role. `upstream_connections` and `client_connections` are numbers of open
    connections. `build` describes the program that runs. `breakers` yields role, id, state as a word and number of
    openings of every member of the fleet. `kv_events` is what is known by them, if they are followed.
    """

    metrics: Metrics
    ledger: Ledger
    index: PrefixIndex
    workers: Callable[[], Iterable[Worker]]
    policy_name: Callable[[Role], str]
    upstream_connections: Callable[[], int]
    client_connections: Callable[[], int] = int
    worker_states: Callable[[], Iterable[WorkerState]] = tuple
    build: Mapping[str, str] = field(default_factory=dict)
    breakers: Callable[[], Iterable[BreakerRow]] = tuple
    fastdeploy_metrics: FastDeployMetrics | None = None
    kv_events: tuple[ExactIndex, KvCounts] | None = None

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
        sources = self._sources
        workers = sources.all_workers()
        sources.metrics.keep_workers({worker.id for worker in workers})
        if sources.fastdeploy_metrics is not None:
            sources.fastdeploy_metrics.keep_workers(worker.url for worker in workers)
        yield from request_families(sources.metrics, workers, sources.policy_name)
        yield from worker_families(sources.ledger, workers, sources.worker_states())
        yield from self._index()
        yield from self._disaggregation(workers)
        yield from failure_families(sources.metrics)
        yield from self._process()
        yield from self._breakers()
        if sources.kv_events is not None:
            yield from kv_families(*sources.kv_events)
        yield GaugeMetricFamily(
            "warmroute_upstream_connections",
            "Open connections to workers, busy and idle.",
            sources.upstream_connections(),
        )
        yield GaugeMetricFamily(
            "warmroute_client_connections", "Open connections of clients.", sources.client_connections()
        )
        yield GaugeMetricFamily(
            "warmroute_ledger_consistent",
            "1 if every load equals what the open leases add up to, else 0.",
            float(self._audit()),
        )
        yield CounterMetricFamily(
            "warmroute_leases_lost",
            "Requests that were given back because nothing held them any more, without being ended.",
            sources.ledger.lost_leases,
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

    def _disaggregation(self, workers: Iterable[Worker]) -> Iterator[Metric]:
        metrics = self._sources.metrics
        recomputed = {worker.id: 0 for worker in workers if worker.role == "prefill"} | metrics.recomputed
        yield counter(
            "warmroute_pd_recomputed",
            "Answers of a prefill worker that handed nothing over: the decode worker computed the prompt again.",
            "worker",
            recomputed or {"": 0},
        )
        yield counter(
            "warmroute_pd_decode_alone",
            "Requests that went to a decode worker without a prefill worker, by reason.",
            "reason",
            dict.fromkeys(_ALONE_REASONS, 0) | metrics.decode_alone,
        )

    def _process(self) -> Iterator[Metric]:
        yield histogram(
            "warmroute_event_loop_lag_seconds",
            "By how much a timer of the router's event loop was late, twice a second.",
            self._sources.metrics.loop_lag,
        )
        yield CounterMetricFamily(
            "warmroute_access_log_lost_lines",
            "Lines of the access log that were not written: they came too fast, or the file could not be written.",
            self._sources.metrics.lost_access_lines(),
        )
        yield InfoMetricFamily("warmroute_build", "What this router is made of.", dict(self._sources.build))

    def _breakers(self) -> Iterator[Metric]:
        states: dict[tuple[str, str], float] = {}
        openings = CounterMetricFamily(
            "warmroute_breaker_opened", "How often a worker's breaker has opened.", labels=("role", "worker")
        )
        for role, worker, state, opened in self._sources.breakers():
            states[role, worker] = _BREAKER_VALUES[state]
            openings.add_metric((role, worker), opened)
        if not states:
            openings.add_metric(("", ""), 0)
        yield openings
        yield worker_gauge("warmroute_breaker_state", "0: closed, 1: half open, 2: open (no requests).", states)

    def _audit(self) -> bool:
        audit = self._sources.ledger.audit()
        if self._was_consistent and not audit.consistent:
            logger.error("ledger is not consistent, restart the router and report this: %s", "; ".join(audit.problems))
        self._was_consistent = audit.consistent
        return audit.consistent


def create_registry(sources: Sources) -> CollectorRegistry:
    """A registry of this router alone (two routers in one process share nothing), with the usual process metrics."""
    registry = CollectorRegistry()
    registry.register(RouterCollector(sources))
    if sources.fastdeploy_metrics is not None:
        registry.register(sources.fastdeploy_metrics)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
