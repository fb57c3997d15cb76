"""Sockets that an engine listens on, and the applications behind them."""

from __future__ import annotations

import socket

from aiohttp import web

KEEPALIVE_SECONDS = 5.0
"""Idle connections are closed after this time, as by the uvicorn of real engines."""

_SHUTDOWN_SECONDS = 0.5
_BACKLOG = 1024


def open_port(host: str, port: int) -> socket.socket:
    """Listen; 0 takes a free port. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def port_of(listener: socket.socket) -> int:
    """The port that a socket listens on."""
    return int(listener.getsockname()[1])


class Listening:
    """One application behind one socket. Clients that leave end their handlers."""

    def __init__(self, app: web.Application, listener: socket.socket) -> None:
        self._listener = listener
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )

    async def start(self) -> None:
        """Serve."""
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener, backlog=_BACKLOG).start()

    async def crash(self) -> None:
        """Stop listening and reset every connection in the middle of whatever it does."""
        for site in list(self._runner.sites):
            await site.stop()
        server = self._runner.server
        if server is not None:
            for connection in list(server.connections):
                if connection.transport is not None:
                    connection.transport.abort()

    async def stop(self) -> None:
        """Stop in order. May be called again."""
        await self._runner.cleanup()
