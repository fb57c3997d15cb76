"""Starts and stops simulated engines. Any number of them fit in one process and one event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack

from aiohttp import web

from warmroute.simulation.core import EngineCore
from warmroute.simulation.driver import Driver
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.listening import Listening, open_port, port_of
from warmroute.simulation.pd.counts import KvCounts
from warmroute.simulation.pd.decode import DecodePart, GivingBack
from warmroute.simulation.pd.plans import Identity
from warmroute.simulation.pd.station import Station, meeting_port_setting, open_station
from warmroute.simulation.registration import keep_registered, reachable_host, register_info
from warmroute.simulation.server import EngineServer
from warmroute.simulation.settings import EngineSettings


class RunningEngine:
    """A simulated engine that listens. `start_engine` makes it.

    `meeting_port` is SGLang's bootstrap port or FastDeploy's connector port, where there is one, else `port`. Besides
    `stop` an engine can fail in the ways that a router has to survive: `pause`, `freeze`, `crash`, `set_health`,
    `give_back`.
    """

    def __init__(
        self,
        identity: Identity,
        server: EngineServer,
        driver: Driver,
        station: Station | None,
        listening: list[Listening],
        resources: AsyncExitStack,
    ) -> None:
        self.settings = identity.settings
        self.port = identity.port
        self.meeting_port = identity.meeting_port
        self._server = server
        self._driver = driver
        self._station = station
        self._listening = listening
        self._resources = resources
        self._registration: asyncio.Task[None] | None = None
        if self.settings.router:
            beat = keep_registered(
                self.settings,
                self.url,
                lambda: register_info(self.settings, self.port, self.meeting_port, is_paused=server.paused),
            )
            self._registration = asyncio.create_task(beat)

    @property
    def url(self) -> str:
        """Base URL, for instance `http://127.0.0.1:8101`."""
        host = reachable_host(self.settings.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def core(self) -> EngineCore:
        """The engine itself: counters, queue and cache."""
        return self._driver.core

    @property
    def kv(self) -> KvCounts:
        """What was counted of handovers; all zero for a mixed engine."""
        return KvCounts() if self._station is None else self._station.counts

    @property
    def kv_held(self) -> int:
        """Handovers of a prefill engine that have not ended."""
        return 0 if self._station is None else self._station.held

    def pause(self) -> None:
        """Refuse new requests (503) and say so in the heartbeat; running ones go on."""
        self._server.paused = True

    def resume(self) -> None:
        """Undo `pause`."""
        self._server.paused = False

    def freeze(self) -> None:
        """Hang: connections are accepted and nothing is answered, streams fall silent."""
        self._server.thawed.clear()
        self._driver.freeze()

    def thaw(self) -> None:
        """Undo `freeze`; everything goes on where it stopped."""
        self._server.thawed.set()
        self._driver.thaw()

    def set_health(self, healthy: bool) -> None:
        """Let `/health` answer 200 or 503."""
        self._server.healthy = healthy

    def give_back(self, *, after_tokens: int = 0, as_error: bool = False, count: int = 1) -> None:
        """Let a decode engine give its next `count` requests up, as FastDeploy's does when it runs out of blocks.

        The answer then ends after so many tokens with `finish_reason` "pd_reschedule"; or it is a "PD Error".
        """
        if self._station is None or not isinstance(self._station.part, DecodePart):
            raise ValueError("only a decode engine gives requests back")
        self._station.part.to_give_back.extend([GivingBack(after_tokens, as_error)] * count)

    async def crash(self) -> None:
        """Die: stop listening and reset every connection in the middle of whatever it does."""
        await self._unregister()
        for one in self._listening:
            await one.crash()
        await self._close()

    async def stop(self) -> None:
        """Stop in order: running requests end with `finish_reason` abort. May be called again."""
        await self._unregister()
        await self._close()

    async def _close(self) -> None:
        self.thaw()
        self._server.abort_all()
        await self._resources.aclose()

    async def _unregister(self) -> None:
        if self._registration is not None:
            self._registration.cancel()
            await asyncio.gather(self._registration, return_exceptions=True)
            self._registration = None


async def start_engine(settings: EngineSettings, more_routes: Iterable[web.RouteDef] = ()) -> RunningEngine:
    """Start one engine in the running event loop, with some more routes. Raises OSError when a port is taken."""
    cache = KvCache(settings.cache_tokens, settings.block_size)
    core = EngineCore(settings.timing, cache, settings.max_running)
    driver = Driver(core, asyncio.get_running_loop(), settings.speed)
    thawed = asyncio.Event()
    thawed.set()
    async with AsyncExitStack() as resources:
        listener = resources.enter_context(open_port(settings.host, settings.port))
        meeting = _open_meeting(settings, resources)
        identity = _identity(settings, port_of(listener), port_of(meeting or listener))
        station = None
        if settings.role != "mixed":
            station = await resources.enter_async_context(open_station(identity, driver, thawed))
        server = EngineServer(settings, driver, time.time(), thawed, station)
        routes = station.routes if station is not None else ()
        listening = [Listening(server.application(*more_routes, *(() if meeting else routes)), listener)]
        if meeting is not None:
            listening.append(Listening(server.bare_application(routes), meeting))
        for one in listening:
            resources.push_async_callback(one.stop)
            await one.start()
        return RunningEngine(identity, server, driver, station, listening, resources.pop_all())


def _open_meeting(settings: EngineSettings, resources: AsyncExitStack) -> socket.socket | None:
    port = meeting_port_setting(settings)
    return None if port is None else resources.enter_context(open_port(settings.host, port))


def _identity(settings: EngineSettings, port: int, meeting_port: int) -> Identity:
    """The id tells one start of an engine from the next."""
    engine_id = f"simulated-{port}-{time.time_ns():x}"
    return Identity(settings, reachable_host(settings.host), port, meeting_port, engine_id)
