"""Who is in the fleet, and every change of it. No socket, no task; the clock is handed in.

A member's record for the scheduler (`Worker`) outlives its removal until the last lease is back. If the worker returns
before that, it gets the same record, so that its load is true; its prefix entries are forgotten in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from warmroute.engines import Vitals
from warmroute.engines.dialect import Dialect
from warmroute.engines.dialects.fastdeploy import FASTDEPLOY
from warmroute.engines.peer import Peer
from warmroute.engines.recognise import recognise
from warmroute.fleet.breaker import BreakerRules
from warmroute.fleet.breakers import Breakers
from warmroute.fleet.health import Health
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.member import Member, Source
from warmroute.fleet.models import ModelObject
from warmroute.fleet.peers import peer_of
from warmroute.fleet.pools import Pools
from warmroute.fleet.silence import SilenceRules, Silences, Waiting
from warmroute.fleet.states import State
from warmroute.fleet.verdict import Verdict
from warmroute.scheduling.worker import ROLES, Role, Worker

logger = logging.getLogger(__name__)

DEFAULT_CACHE_TOKENS = 500_000

_WHAT_TO_DO = "; it is probed until it is back, its own log should tell more"


@dataclass(frozen=True, slots=True)
class RosterRules:
    """What is configured: thresholds in probes, the cache size in tokens (None: what engines tell).

    `dialect` is what all engines are, None for what each of them is recognised as. `in_pairs` workers serve requests
    together, so that none is sent to an engine that is not recognised.
    """

    failure_threshold: int = 1
    success_threshold: int = 1
    cache_tokens: int | None = None
    dialect: Dialect | None = None
    in_pairs: bool = False
    breaker: BreakerRules = field(default_factory=BreakerRules)
    silence: SilenceRules = field(default_factory=SilenceRules)


class Roster:
    """All members by id. `forget` purges a worker's prefix entries; `on_change` hears of every change of routing."""

    def __init__(
        self,
        rules: RosterRules,
        forget: Callable[[Worker], None],
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.members: dict[str, Member] = {}
        self.pools = Pools(self.members)
        self._rules = rules
        self._forget = forget
        self._clock = clock
        self._on_change = on_change
        self.breakers = Breakers(self.members, clock, self._changed)
        self._silences = {role: Silences(rules.silence, 2 if role == "decode" else 1) for role in ROLES}
        self._departed: WeakValueDictionary[tuple[str, Role], Worker] = WeakValueDictionary()

    def add(self, info: InstanceInfo, source: Source, state: State = State.STARTING) -> Member:
        """Store a new worker. Its id must not be taken."""
        if info.id in self.members:
            raise ValueError(f"{info.id} is a member already")
        health = Health(self._rules.failure_threshold, self._rules.success_threshold, state)
        member = Member(
            info,
            self._worker(info, info.role),
            source,
            health,
            self._clock(),
            dialect=self._told_dialect(info),
            needs_dialect=self._rules.in_pairs,
            breaker=self._rules.breaker,
        )
        self.members[member.id] = member
        self._changed(member, f"joins as {source}, {state.value}")
        return member

    def heartbeat(self, member: Member, info: InstanceInfo) -> None:
        """A known worker spoke up. During a leave this changes nothing."""
        if member.leaving:
            return
        member.last_heartbeat = self._clock()
        if info.role != member.role:
            self.change_role(member, info.role)
        earlier = member.info
        member.info = info.completed(earlier) if member.wanted else info
        if member.info.is_other_process(earlier):
            self._restarted(member)
        elif info.registers and earlier.registers and info.version != earlier.version:
            self._forget(member.worker)
            logger.info("worker %s (%s) has other weights: its prefixes are forgotten", member.url, member.role)
        dialect = self._told_dialect(info) or member.dialect
        self._understand(member, dialect, peer_of(member.info, member.peer.kv_connector))
        if info.is_paused is not member.paused:
            member.paused = info.is_paused
            self._changed(member, "is paused" if info.is_paused else "is no longer paused")

    def change_role(self, member: Member, role: Role) -> None:
        """The worker goes on under a new record; what runs under the old one ends there."""
        before = member.role
        self._retire(member.worker)
        member.worker = self._worker(member.info, role)
        member.worker.suspect = member.breaker.listens
        self._changed(member, f"is {role} now, it was {before}")

    def record_probe(self, member: Member, passed: bool, reason: str = "", *, timed_out: bool = False) -> None:
        """Count one tick."""
        health, was_doubted = member.health, member.health.is_doubted
        if passed:
            member.last_passed = self._clock()
        if health.time_out(reason) if timed_out else health.record(passed, reason):
            if passed:
                self._changed(member, "is healthy")
            else:
                self._changed(member, f"is unhealthy: {reason}{_WHAT_TO_DO}", logging.WARNING)
        elif was_doubted:
            self.pools.invalidate()
        elif not passed and health.state is State.STARTING and not member.was_missed:
            member.was_missed = True
            logger.warning(
                "worker %s (%s) is waited for: %s; start it, or remove it with DELETE /workers/%s",
                member.url,
                member.role,
                reason,
                member.id,
            )

    def refuse(self, member: Member, verdict: Verdict, request_id: bytes) -> None:
        """The data plane found nobody there, or nobody who took its connection in time."""
        if member.health.is_doubted:
            self.pools.invalidate()
        blame = member.health.doubt if verdict is Verdict.CONNECT_TIMEOUT else member.health.refuse
        is_news = blame(f"it {verdict.value}")
        if is_news:
            self._changed(member, f"is unhealthy: {member.health.reason}{_WHAT_TO_DO}", logging.WARNING)
        self.breakers.unreachable(member, verdict, request_id, is_news=is_news)

    def of(self, worker: Worker) -> Member | None:
        """Whose record this is; None if it is not (or no longer) a member's."""
        member = self.members.get(worker.id)
        return member if member is not None and member.worker is worker else None

    def learn_vitals(self, member: Member, vitals: Vitals) -> bool:
        """Take in a page of metrics. Returns whether it shows that the engine was restarted since the last one."""
        restarted = member.vitals is not None and vitals.restarted_since(member.vitals)
        member.vitals = vitals
        member.polled_at = self._clock()
        member.worker.report = vitals.report
        member.worker.cache_tokens = self._cache_tokens(vitals)
        if restarted:
            self._restarted(member)
        return restarted

    def learn_models(self, member: Member, models: tuple[ModelObject, ...] | None) -> None:
        """Take in the list of models; None when it could not be had."""
        ids = frozenset(model["id"] for model in models or ())
        is_news = ids != member.model_ids or (models is None) is not (member.models is None)
        member.models, member.model_ids = models, ids
        if is_news:
            self.pools.invalidate()
            self._on_change()

    def recognise(self, member: Member, vitals: Vitals | None, models: tuple[ModelObject, ...] | None) -> None:
        """Learn what engine this is from what it has just shown; what shows nothing leaves it at what it was."""
        owners = [model.get("owned_by") for model in models or ()]
        dialect = self._told_dialect(member.info) or recognise(vitals, owners) or member.dialect
        kv_connector = member.peer.kv_connector if vitals is None else vitals.kv_connector
        self._understand(member, dialect, peer_of(member.info, kv_connector))
        if not (member.is_understood or member.was_unrecognised):
            member.was_unrecognised = True
            logger.warning(
                "worker %s (%s) gets no requests: neither its metrics nor its models tell what engine it is; "
                "name it with --engine",
                member.url,
                member.role,
            )

    def listen(self, waiting: Waiting) -> list[Member]:
        """Look for workers that begin no answers; returns those that are to be probed now."""
        suspicious: list[Member] = []
        for role, silences in self._silences.items():
            members = [member for member in self.members.values() if member.role == role]
            found = silences.look(members, waiting, self._clock())
            for member in found.changed:
                if member.stuck_since is None:
                    self._changed(member, "is no longer stuck")
                else:
                    count = waiting(member.worker)
                    what = f"gets no requests: it begins no answer while others do, {count} requests wait there"
                    self._changed(member, what, logging.WARNING)
            suspicious += found.suspicious
        return suspicious

    def drop_old_reports(self, max_age: float) -> None:
        """Forget polled figures that are older than `max_age` seconds."""
        oldest = self._clock() - max_age
        for member in self.members.values():
            if member.worker.report is not None and member.polled_at < oldest:
                member.worker.report = None

    def hold(self, member: Member, drained: bool) -> None:
        """Set or lift the operator's hold, which no heartbeat touches."""
        if member.drained is not drained:
            member.drained = drained
            self._changed(member, f"is drained, {member.running} running" if drained else "is no longer drained")

    def leave(self, member: Member, *, for_good: bool) -> None:
        """No new requests; once nothing runs, `finished` names it. `for_good` ends the wish to have it back."""
        if for_good:
            member.wanted = False
        if not member.leaving:
            member.leaving = True
            self._changed(member, f"leaves, {member.running} running")

    def stay(self, member: Member) -> None:
        """An operator wants the worker, leaving or not."""
        member.wanted = True
        if member.leaving:
            member.leaving = False
            self._changed(member, "stays")

    def finished(self) -> list[Member]:
        """Members that leave and on which nothing runs any more."""
        return [member for member in self.members.values() if member.leaving and not member.running]

    def expired(self, expiry: float) -> list[Member]:
        """Members without any sign of life for `expiry` seconds."""
        now = self._clock()
        return [member for member in self.members.values() if member.has_expired(now, expiry)]

    def remove(self, member: Member, reason: str, level: int = logging.INFO) -> None:
        """Take a member out; `level` is that of the log line. Its record lives on through its leases."""
        del self.members[member.id]
        member.health.remove()
        self._retire(member.worker)
        self._changed(member, f"is removed: {reason}", level)

    def _restarted(self, member: Member) -> None:
        self._forget(member.worker)
        logger.info("worker %s (%s) was restarted: its prefixes are forgotten", member.url, member.role)
        self.breakers.reset(member)

    def _told_dialect(self, info: InstanceInfo) -> Dialect | None:
        return self._rules.dialect or (FASTDEPLOY if info.registers else None)

    def _understand(self, member: Member, dialect: Dialect | None, peer: Peer) -> None:
        is_news = dialect is not member.dialect
        if not is_news and peer == member.peer:
            return
        member.speaks(dialect)
        member.peer = peer
        if is_news and dialect is not None:
            self._changed(member, f"is recognised as {dialect.name}")
        else:
            self.pools.invalidate()
            self._on_change()

    def _worker(self, info: InstanceInfo, role: Role) -> Worker:
        earlier = self._departed.get((info.id, role))
        if earlier is not None and earlier.load.running_requests:
            earlier.departed = False
            earlier.suspect = False
            return earlier
        return Worker(info.id, info.url, role, self._cache_tokens(None))

    def _retire(self, worker: Worker) -> None:
        worker.report = None
        worker.departed = True
        self._departed[worker.id, worker.role] = worker
        self._forget(worker)

    def _cache_tokens(self, vitals: Vitals | None) -> int:
        if self._rules.cache_tokens is not None:
            return self._rules.cache_tokens
        return (vitals and vitals.kv_cache_tokens) or DEFAULT_CACHE_TOKENS

    def _changed(self, member: Member, what: str, level: int = logging.INFO) -> None:
        logger.log(level, "worker %s (%s) %s", member.url, member.role, what)
        self.pools.invalidate()
        self._on_change()
