"""Starts and stops simulated engines. Any number of them fit in one process and one event loop."""

from __future__ import annotations

import asyncio
import socket
import time

from aiohttp import web

from warmroute.simulation.core import EngineCore
from warmroute.simulation.driver import Driver
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.registration import keep_registered, reachable_host
from warmroute.simulation.server import EngineServer
from warmroute.simulation.settings import EngineSettings

KEEPALIVE_SECONDS = 5.0
"""Idle connections are closed after this time, as by the uvicorn of real engines."""

_SHUTDOWN_SECONDS = 0.5
_BACKLOG = 1024


class RunningEngine:
    """A simulated engine that listens. `start_engine` makes it.

    Besides `stop` it can fail in the ways that a router has to survive: `pause`, `freeze`, `crash`, `set_health`.
    """

    def __init__(
        self, settings: EngineSettings, server: EngineServer, driver: Driver, runner: web.AppRunner, port: int
    ):
        self.settings = settings
        self.port = port
        self._server = server
        self._driver = driver
        self._runner = runner
        self._registration: asyncio.Task[None] | None = None
        if settings.router:
            beat = keep_registered(settings, self.url, port, lambda: server.paused)
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

    async def crash(self) -> None:
        """Die: stop listening and reset every connection in the middle of whatever it does."""
        await self._unregister()
        for site in list(self._runner.sites):
            await site.stop()
        server = self._runner.server
        if server is not None:
            for connection in list(server.connections):
                if connection.transport is not None:
                    connection.transport.abort()
        await self._close()

    async def stop(self) -> None:
        """Stop in order: running requests end with `finish_reason` abort. May be called again."""
        await self._unregister()
        await self._close()

    async def _close(self) -> None:
        self.thaw()
        self._driver.abort_all()
        await self._runner.cleanup()

    async def _unregister(self) -> None:
        if self._registration is not None:
            self._registration.cancel()
            await asyncio.gather(self._registration, return_exceptions=True)
            self._registration = None


async def start_engine(settings: EngineSettings) -> RunningEngine:
    """Start one engine in the running event loop. Raises OSError when the port is taken."""
    cache = KvCache(settings.cache_tokens, settings.block_size)
    core = EngineCore(settings.timing, cache, settings.max_running)
    driver = Driver(core, asyncio.get_running_loop(), settings.speed)
    server = EngineServer(settings, driver, time.time())
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    listener = None
    try:
        listener = _listen(settings.host, settings.port)
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()
    except OSError:
        if listener is not None:
            listener.close()
        await runner.cleanup()
        raise
    return RunningEngine(settings, server, driver, runner, listener.getsockname()[1])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)
