"""The HTTP server of a router and its end: it drains, stops listening, waits for what runs, and does not wait for ever.

    stop_after(delay) --> stop_listening --> [nothing runs any more, or drain-timeout: abandon] --> end

A request that is abandoned is told to its client, which has FAREWELL_SECONDS to read it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

logger = logging.getLogger(__name__)

BACKLOG = 2048
FAREWELL_SECONDS = 1.0


class HttpServer(uvicorn.Server):
    """A server that tells when it accepts, and leaves signals alone: uvicorn's would end the process by the signal.

    Running requests have `drain_timeout` seconds once nobody listens any more.
    """

    def __init__(self, config: uvicorn.Config, drain_timeout: float) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._drain_timeout = drain_timeout
        self._timer: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, then tell."""
        await super().startup(sockets)
        self.accepting.set()

    def stop_after(self, delay: float) -> None:
        """Listen for `delay` seconds more."""
        self._next_step(delay)

    def stop_listening(self) -> None:
        """Take no new requests; the server ends once nothing runs."""
        if not self.should_exit:
            self.should_exit = True
            self._next_step(self._drain_timeout)

    def abandon(self) -> None:
        """Cancel what runs, so that each client gets an end of its answer; close what is left after a moment."""
        self.should_exit = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self.server_state.tasks):
            task.cancel()
        self._timer = asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._give_up)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does; the application's end is awaited also by force, else it would be cancelled."""
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()
        if self._timer is not None:
            self._timer.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield

    def _next_step(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        step = self._run_out_of_time if self.should_exit else self.stop_listening
        self._timer = asyncio.get_running_loop().call_later(delay, step)

    def _run_out_of_time(self) -> None:
        running = len(self.server_state.tasks)
        if running:
            logger.warning("drain-timeout is over: %d running requests are told and ended", running)
        self.abandon()

    def _give_up(self) -> None:
        self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def bind(host: str, port: int) -> socket.socket:
    """A listening address, IPv4 or IPv6. Raises OSError when it is in use or does not exist."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
