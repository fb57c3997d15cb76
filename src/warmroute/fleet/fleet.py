"""The fleet: the roster and everything that runs to keep it true. The one object that other rooms talk to.

What it can be asked is in `FleetView`; here is what changes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import aiohttp

from warmroute.access.worker_keys import WorkerKeys
from warmroute.config import Config, ManagerConfig
from warmroute.config.values import keys_by_url
from warmroute.engines.recognise import DIALECTS
from warmroute.fleet.acquaintance import get_to_know, vouch
from warmroute.fleet.address import parse_address
from warmroute.fleet.background import Background
from warmroute.fleet.breaker import BreakerRules
from warmroute.fleet.broadcast import Answer, broadcast
from warmroute.fleet.client import EngineClient, open_session
from warmroute.fleet.errors import InvalidInstance, UnknownWorker
from warmroute.fleet.instance import InstanceInfo, check_role
from warmroute.fleet.member import Member, Source
from warmroute.fleet.returns import wait_for_return
from warmroute.fleet.roster import Roster, RosterRules
from warmroute.fleet.silence import Waiting
from warmroute.fleet.states import State
from warmroute.fleet.static import static_instances
from warmroute.fleet.times import FleetTimes
from warmroute.fleet.verdict import UNREACHABLE, Verdict
from warmroute.fleet.view import FleetView, worker_id
from warmroute.fleet.watcher import Intervals, Watcher
from warmroute.scheduling.worker import Role, Worker
from warmroute.telemetry.guard import Guard
from warmroute.tls import ClientTls

logger = logging.getLogger(__name__)

VERDICT_SECONDS = 2.0
"""How long a request may wait to learn which of its workers has failed; as long as for a connection."""


class Fleet(FleetView):
    """All workers, from `start` to `stop`, both in the loop that serves requests.

    `scheduler_forget` purges a worker's prefix entries. `poll_interval` is in seconds (default: the tick interval).
    `on_frozen` hears of workers that take connections and answer nothing, not even probes; `waiting` tells how many
    requests a worker has not begun to answer.
    Methods that take a worker's name accept its id (`host:port`) and its URL, and raise UnknownWorker.
    """

    def __init__(
        self,
        config: Config,
        scheduler_forget: Callable[[Worker], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[], None] = lambda: None,
        on_frozen: Callable[[Worker], None] = lambda _: None,
        waiting: Waiting = lambda _: 0,
        poll_interval: float | None = None,
        times: FleetTimes | None = None,
    ) -> None:
        manager = config.manager
        self._times = times or FleetTimes()
        tick = manager.health_check_interval_secs
        self._intervals = Intervals(tick, poll_interval or tick)
        rules = RosterRules(
            manager.health_failure_threshold,
            manager.health_success_threshold,
            config.scheduler.worker_cache_tokens,
            DIALECTS.get(manager.engine),
            config.server.splitwise,
            BreakerRules(manager.breaker_failures, manager.breaker_open),
            self._times.silence,
        )
        super().__init__(config, Roster(rules, scheduler_forget, clock, on_change))
        self._on_frozen = on_frozen
        self._waiting = waiting
        self._background = Background()
        self._watchers: dict[str, Watcher] = {}
        self._registrations: dict[str, asyncio.Task[None]] = {}
        self._statics: dict[str, InstanceInfo] = {}
        self._returns: dict[str, asyncio.Task[None]] = {}
        self._leave_began = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self.keys = WorkerKeys(keys_by_url(config.security.worker_key))
        """What is shown to workers that ask for a key."""
        self.tls = ClientTls(
            config.security.upstream_ca,
            config.security.upstream_cert,
            config.security.upstream_key,
            insecure=config.security.upstream_insecure,
        )
        """How workers at https:// URLs are trusted."""

    async def start(self) -> None:
        """Begin to probe the static workers. Raises InvalidInstance when one cannot be understood."""
        manager = self._config.manager
        self._statics = self._named(manager)
        self._session = open_session()
        self._client = EngineClient(
            self._session, manager.health_check_endpoint, manager.health_check_timeout_secs, self.keys, self.tls
        )
        for info in self._statics.values():
            self._want(info, "static")
        self._background.run(self._keep_house(), "fleet housekeeping")

    async def stop(self) -> None:
        """End all tasks and connections. The members stay readable."""
        await self._background.stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def http(self) -> aiohttp.ClientSession:
        """The session for engines: no proxies, no cookies. Exists between `start` and `stop`."""
        if self._session is None:
            raise RuntimeError("the fleet is not running")
        return self._session

    async def kv_event_sources(self, url: str) -> bytes | None:
        """What a worker answers to the question where it publishes its KV events; None if it does not."""
        return await self._client.page(url, "/kv_event_sources")

    async def ask(self, url: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Send JSON to a worker: status and answer. Raises one of `client.REQUEST_ERRORS`."""
        return await self._client.post(url, path, body, seconds)

    def worker_refused(self, worker: Worker) -> None:
        """Nobody answered there: what `judge` says with REFUSED, for a caller that has no request."""
        self.judge(worker, Verdict.REFUSED, b"")

    def judge(self, worker: Worker, verdict: Verdict, request_id: bytes) -> None:
        """Tell how an attempt of a request has ended on a worker; one that is no member (any more) is ignored.

        Of good answers only those of workers that are `suspect` need to be told. After REFUSED the worker is unroutable
        until it passes a probe, which comes at once; after CONNECT_TIMEOUT too, unless nobody else is left. The other
        failures count for its breaker.
        """
        member = self._roster.of(worker)
        if member is None:
            return
        if verdict not in UNREACHABLE:
            self._roster.breakers.judge(member, verdict, request_id)
            return
        self._roster.refuse(member, verdict, request_id)
        if watcher := self._watchers.get(member.id):
            watcher.hint()

    def attempt_started(self, worker: Worker, request_id: bytes) -> None:
        """A request is about to be sent to a worker. Only needed for one that is `suspect`: with a breaker that is
        half open, it leaves the pools until the verdict on this request.
        """
        member = self._roster.of(worker)
        if member is not None:
            self._roster.breakers.attempt_started(member, request_id)

    async def register(self, info: InstanceInfo) -> None:
        """A registration or heartbeat. A known worker is answered at once, a new one after its probes.

        Raises InvalidInstance (wrong role for this router) or NotHealthy (new, and not stored).
        """
        check_role(info.role, splitwise=self._config.server.splitwise)
        info = replace(info, registers=True)
        if info.id not in self._roster.members:
            # Shielded: somebody else may wait for the same registration.
            await asyncio.shield(self._registration(info))
        member = self._roster.members.get(info.id)
        if member is not None:
            self._roster.heartbeat(member, info)
            if not member.health.is_healthy:
                self._watchers[member.id].hint()

    def add_worker(self, url: str, role: Role = "mixed", bootstrap_port: int = 0) -> Member:
        """Want a worker from now on, whether it is up or not. Raises InvalidInstance. A known one stays and takes
        the role, and the port if there is one.
        """
        try:
            address = parse_address(url)
        except ValueError as error:
            raise InvalidInstance(f"worker {url[:200]!r} {error}") from None
        check_role(role, splitwise=self._config.server.splitwise)
        return self._want(InstanceInfo.at(address, role, bootstrap_port), "added")

    def restate(self, manager: ManagerConfig) -> tuple[int, int]:
        """Take over the static workers of a new configuration; returns how many are new or changed, and how many gone.

        Who is not named any more gets no new requests, and is removed when its running ones have ended, unless it
        registers itself. Raises InvalidInstance, before anything has changed.
        """
        before, self._statics = self._statics, self._named(manager)
        gone = [info for key, info in before.items() if key not in self._statics]
        news = [info for key, info in self._statics.items() if before.get(key) != info]
        for info in gone:
            self._unwant(info)
        for info in news:
            member = self._want(info, "static")
            if not member.info.registers:
                self._roster.heartbeat(member, info)
        return len(news), len(gone)

    def drain(self, worker: str) -> Member:
        """Hold a worker: no new requests, whatever it says, until `undrain`."""
        member = self._known(worker)
        self._roster.hold(member, True)
        return member

    def undrain(self, worker: str) -> Member:
        """Lift the hold."""
        member = self._known(worker)
        self._roster.hold(member, False)
        return member

    def deregister(self, worker: str, *, for_good: bool = False) -> int:
        """No new requests; when the running ones (their number is returned) have ended, the worker is removed.

        A wanted worker comes back by itself once it was down and up again, unless it is removed `for_good`.
        """
        key = worker_id(worker)
        if for_good and key in self._returns:
            self._returns.pop(key).cancel()
            return 0
        member = self._known(worker)
        self._roster.leave(member, for_good=for_good)
        self._leave_began.set()
        return member.running

    async def probe_all(self) -> list[tuple[Member, bool, str]]:
        """Check the health of every member now: member, passed, reason. Takes one probe's time; changes no state."""
        members = list(self.members)
        probes = await asyncio.gather(*(self._client.probe(member.url) for member in members))
        return [(member, probe.passed, probe.reason) for member, probe in zip(members, probes, strict=True)]

    async def is_well(self, worker: Worker) -> bool:
        """Whether a worker passes a probe now, within VERDICT_SECONDS; changes no state."""
        try:
            async with asyncio.timeout(VERDICT_SECONDS):
                return (await self._client.probe(worker.url)).passed
        except TimeoutError:
            return False

    async def abort(self, body: bytes) -> list[Answer]:
        """Send an order to `/v1/abort_requests` of every member, healthy or not. Takes as long as a probe may."""
        seconds = self._config.manager.health_check_timeout_secs
        return await broadcast(self._client, list(self.members), "/v1/abort_requests", body, seconds)

    def _known(self, worker: str) -> Member:
        member = self.get(worker)
        if member is None:
            raise UnknownWorker(worker)
        return member

    def _named(self, manager: ManagerConfig) -> dict[str, InstanceInfo]:
        # Where a file entry has the address of a URL, the entry counts: it tells more.
        statics = {info.id: info for info in static_instances(manager)}
        for info in statics.values():
            check_role(info.role, splitwise=self._config.server.splitwise)
        return statics

    def _unwant(self, info: InstanceInfo) -> None:
        member = self._roster.members.get(info.id)
        if member is not None and member.info.registers:
            member.wanted = False
        elif member is not None or info.id in self._returns:
            self.deregister(info.id, for_good=True)

    def _want(self, info: InstanceInfo, source: Source) -> Member:
        if returning := self._returns.pop(info.id, None):
            returning.cancel()
        member = self._roster.members.get(info.id)
        if member is None:
            member = self._roster.add(info, source)
            self._watch(member)
            return member
        self._roster.stay(member)
        ports = info.completed(member.info)
        told = replace(
            member.info, role=info.role, connector_port=ports.connector_port, bootstrap_port=ports.bootstrap_port
        )
        if told != member.info:
            self._roster.heartbeat(member, told)
        return member

    def _watch(self, member: Member) -> None:
        watcher = Watcher(member, self._roster, self._client, self._intervals, self._times, self._on_frozen)
        self._watchers[member.id] = watcher
        watcher.start(self._background)

    def _registration(self, info: InstanceInfo) -> asyncio.Task[None]:
        """The one task that introduces this new worker, however many ask for it."""
        task = self._registrations.get(info.id)
        if task is None:
            task = self._background.run(self._introduce(info), f"register {info.id}")
            task.add_done_callback(lambda _: self._registrations.pop(info.id, None))
            self._registrations[info.id] = task
        return task

    async def _introduce(self, info: InstanceInfo) -> None:
        await vouch(self._client, info, self._config.manager.health_success_threshold, self._times)
        known = await get_to_know(self._client, info, self._times.acquaintance)
        if info.id in self._roster.members:
            return  # An operator has added it meanwhile.
        returning = self._returns.pop(info.id, None)
        if returning is not None:
            returning.cancel()
        member = self._roster.add(info, "static" if returning else "registered", State.HEALTHY)
        self._roster.learn_models(member, known.models)
        if known.vitals is not None:
            self._roster.learn_vitals(member, known.vitals)
        self._roster.recognise(member, known.vitals, known.models)
        self._watch(member)

    async def _bring_back(self, info: InstanceInfo, source: Source) -> None:
        await wait_for_return(self._client, info, self._times.retry)
        del self._returns[info.id]
        self._want(info, source)

    async def _keep_house(self) -> None:
        guard = Guard(logger, "the fleet's housekeeping")
        while True:
            leaving = any(member.leaving for member in self.members)
            try:
                async with asyncio.timeout(self._times.leave_check if leaving else self._times.housekeeping):
                    await self._leave_began.wait()
            except TimeoutError:
                pass
            self._leave_began.clear()
            with guard:
                self._tidy()

    def _tidy(self) -> None:
        for member in self._roster.finished():
            self._remove(member, "it has left")
            if member.wanted:
                returning = self._bring_back(member.info, member.source)
                self._returns[member.id] = self._background.run(returning, f"return of {member.id}")
        for member in self._roster.expired(self._times.expiry):
            reason = (
                f"no heartbeat and no passed probe for {self._times.expiry:g} s; an engine that starts registers again"
            )
            self._remove(member, reason, logging.WARNING)
        self._roster.breakers.tick()
        for member in self._roster.listen(self._waiting):
            self._watchers[member.id].hint()
        self._roster.drop_old_reports(max(self._times.report_age, 3 * self._intervals.poll))

    def _remove(self, member: Member, reason: str, level: int = logging.INFO) -> None:
        self._watchers.pop(member.id).cancel()
        self._roster.remove(member, reason, level)
