"""What the control app is made of. Everything is handed in; it builds nothing that others could want to share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from warmroute.config.tree import Config
from warmroute.control.live_feed import LiveFeed
from warmroute.fleet import Fleet
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.scheduler import Scheduler
from warmroute.telemetry.collector import Sources
from warmroute.telemetry.decisions import DecisionLog
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics
from warmroute.telemetry.history import History
from warmroute.telemetry.kv_counts import KvCounts
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.worker_families import WorkerState


@dataclass(frozen=True, slots=True)
class ControlParts:
    """The rooms of one router that its control endpoints show or steer.

    `upstream_connections` is the gateway's number of open connections, `client_connections` that of the server. `build`
    describes the program that runs. `inference_paths` are the paths that the gateway serves: any other method on them
    is answered 405 here. `feed` carries what live pages show, `decisions` are those that were explained, `kv_events`
    what KV events tell, if they are followed.
    `is_draining` is true once the router is about to end.
    """

    fleet: Fleet
    ledger: Ledger
    scheduler: Scheduler
    metrics: Metrics
    config: Config
    version: str
    history: History
    upstream_connections: Callable[[], int]
    is_draining: Callable[[], bool] = lambda: False
    inference_paths: Collection[str] = ()
    client_connections: Callable[[], int] = int
    build: Mapping[str, str] = field(default_factory=dict)
    fastdeploy_metrics: FastDeployMetrics | None = None
    decisions: DecisionLog = field(default_factory=lambda: DecisionLog(1))
    feed: LiveFeed = field(default_factory=LiveFeed)
    kv_events: tuple[ExactIndex, KvCounts] | None = None

    def metric_sources(self) -> Sources:
        """Where the metrics page reads its values."""
        return Sources(
            self.metrics,
            self.ledger,
            self.scheduler.index,
            self.fleet.workers,
            self.scheduler.policy_name,
            self.upstream_connections,
            client_connections=self.client_connections,
            worker_states=self._worker_states,
            build=self.build,
            breakers=self.fleet.breakers,
            fastdeploy_metrics=self.fastdeploy_metrics,
            kv_events=self.kv_events,
        )

    def _worker_states(self) -> list[WorkerState]:
        return [WorkerState(member.role, member.id, member.state, member.routable) for member in self.fleet.members]
