"""One worker of the fleet: the scheduler's record and all that is known beside it. Only the roster changes it."""

from __future__ import annotations

from typing import Literal

from warmroute.engines import Vitals
from warmroute.engines.dialect import Dialect
from warmroute.engines.peer import Peer
from warmroute.fleet.breaker import Breaker, BreakerRules
from warmroute.fleet.health import Health
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.models import ModelObject
from warmroute.fleet.peers import peer_of
from warmroute.fleet.states import State
from warmroute.scheduling.worker import Role, Worker

Source = Literal["static", "added", "registered"]
MemberState = Literal["starting", "healthy", "unhealthy", "paused", "draining", "gone"]

_SHOWN: dict[State, MemberState] = {
    State.STARTING: "starting",
    State.HEALTHY: "healthy",
    State.UNHEALTHY: "unhealthy",
    State.GONE: "gone",
}


class Member:
    """A known worker.

    `wanted` members were named by an operator: they never expire and are probed until they come (back). The holds:
    `paused` is the engine's word, `drained` the operator's, `leaving` ends in removal. `models` is None until a list
    was fetched. Times are seconds of the fleet's clock. `dialect` is None while it is not known what engine this is;
    a member that `needs_dialect` gets no request until then. `stuck_since` is set while it begins no answers,
    though others do. `peer` is the worker as its dialect sees it.
    """

    __slots__ = (
        "breaker",
        "dialect",
        "drained",
        "health",
        "info",
        "last_heartbeat",
        "last_passed",
        "leaving",
        "model_ids",
        "models",
        "needs_dialect",
        "paused",
        "peer",
        "polled_at",
        "source",
        "stuck_since",
        "vitals",
        "wanted",
        "was_missed",
        "was_unrecognised",
        "worker",
    )

    def __init__(
        self,
        info: InstanceInfo,
        worker: Worker,
        source: Source,
        health: Health,
        now: float,
        *,
        dialect: Dialect | None = None,
        needs_dialect: bool = False,
        breaker: BreakerRules | None = None,
    ) -> None:
        self.info = info
        self.worker = worker
        self.source: Source = source
        self.wanted = source != "registered"
        self.health = health
        self.breaker = Breaker(breaker or BreakerRules())
        self.speaks(dialect)
        self.needs_dialect = needs_dialect
        self.peer: Peer = peer_of(info)
        self.paused = info.is_paused
        self.drained = False
        self.leaving = False
        self.models: tuple[ModelObject, ...] | None = None
        self.model_ids: frozenset[str] = frozenset()
        self.vitals: Vitals | None = None
        self.polled_at = now
        self.last_heartbeat = now
        self.last_passed = now
        self.stuck_since: float | None = None
        self.was_missed = False
        self.was_unrecognised = False

    def speaks(self, dialect: Dialect | None) -> None:
        """Take this for the dialect of the engine; None: it is not known."""
        self.dialect = dialect
        self.worker.tells_prefill = dialect is None or dialect.tells_prefill

    def __repr__(self) -> str:
        return f"Member({self.id!r}, {self.role}, {self.state}, running={self.running})"

    @property
    def id(self) -> str:
        """`host:port`."""
        return self.worker.id

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return self.worker.url

    @property
    def role(self) -> Role:
        """What the worker does."""
        return self.worker.role

    @property
    def running(self) -> int:
        """Requests that are under way on this worker."""
        return self.worker.load.running_requests

    @property
    def routable(self) -> bool:
        """Whether the worker may get a new request."""
        return self.health.is_healthy and self.is_allowed

    @property
    def is_allowed(self) -> bool:
        """Whether nothing but its health stands against new requests."""
        return self.is_understood and not (self.paused or self.drained or self.leaving)

    @property
    def is_understood(self) -> bool:
        """Whether requests can be put into words that the engine knows."""
        return self.dialect is not None or not self.needs_dialect

    @property
    def state(self) -> MemberState:
        """The one word for people. A hold by the router's side comes before what probes say, a pause after it."""
        if self.leaving or self.drained:
            return "draining"
        if self.paused and self.health.is_healthy:
            return "paused"
        return _SHOWN[self.health.state]

    def has_expired(self, now: float, expiry: float) -> bool:
        """Whether neither a heartbeat nor a passed probe was seen for `expiry` seconds. Wanted members never expire."""
        return not self.wanted and now - max(self.last_heartbeat, self.last_passed) > expiry
