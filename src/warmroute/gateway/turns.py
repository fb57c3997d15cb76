"""Whose turn it is on a client connection that carries several requests, one after the other or pipelined.

* `_reading` is the request whose body is being parsed. Only then do bytes go to the parser while something is answered,
  and only if it is that request; what comes early is held as bytes, and beyond MAX_HELD_BYTES left in the socket.
* `_current` is the request whose turn it is to be answered, `_waiting` are those that one read brought behind it.

A turn is an Exchange, which the gateway relays, or a cycle of uvicorn, which its ASGI application answers.
"""

# ruff: noqa: D102 - most methods are those of asyncio's and uvicorn's protocols

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from warmroute.gateway.driver import Driver
from warmroute.gateway.errors import GatewayError, ShuttingDown
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.limits import LAST_CHANCE_SECONDS, LINGER_SECONDS, MAX_PIPELINED
from warmroute.gateway.relay import relay
from warmroute.gateway.sockets import keep_alive

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

Turn = Exchange | RequestResponseCycle


class TurnTaking(HttpToolsProtocol):
    """One client connection: what goes out, in which order, and how it ends."""

    def __init__(
        self,
        gateway: Gateway,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._gateway = gateway
        self._current: Turn | None = None
        self._reading: Turn | None = None
        self._waiting: deque[tuple[Turn, ASGI3Application | None]] = deque()
        self._held = bytearray()
        self._last_request_seen = False  # whatever follows is not answered
        self._dropping_input = False
        self._last_activity = 0.0
        self._began = 0.0  # when the first byte of the request came that is being read, or its turn
        self.write_paused = False  # the client reads more slowly than we write
        self._unread_since: float | None = None  # when that began

    def _feed(self, data: bytes) -> None:
        """Parse bytes of the next request."""
        raise NotImplementedError

    def _close_unless_used(self, since: float) -> None:
        """Close if nothing has come since then: a client that takes the close for the end of a stream shall see one."""
        raise NotImplementedError

    def _refuse_rest(self, error: GatewayError) -> None:
        """Stop reading the request under way, answer it with `error` when its turn comes, and close."""
        raise NotImplementedError

    # The transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        keep_alive(transport)
        self._last_activity = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        self.transport.close()
        self._leave()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.write_paused = True
        self._unread_since = self.loop.time()
        if isinstance(self._current, Exchange):
            self._current.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.write_paused = False
        self._unread_since = None
        if isinstance(self._current, Exchange):
            self._current.resume()

    def shutdown(self) -> None:
        """The server stops: close when idle, else after the answer under way. A half-sent request gets no answer."""
        self._last_request_seen = True
        if self._current is None:
            self.transport.close()
        elif self._reading is self._current:
            self._refuse_rest(ShuttingDown())
        else:
            self._current.keep_alive = False

    # Whose turn it is.

    def _enqueue(self, turn: Turn, app: ASGI3Application | None = None) -> None:
        if self._current is None:
            self._current = turn
            self._start(turn, app)
            return
        self._waiting.append((turn, app))
        if len(self._waiting) >= MAX_PIPELINED:
            turn.keep_alive = False
            self._last_request_seen = True

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._enqueue(cycle, app)

    def _start(self, turn: Turn, app: ASGI3Application | None) -> None:
        if app is not None and not isinstance(turn, Exchange):
            super()._start_asgi_task(turn, app)
        elif isinstance(turn, Exchange):
            if turn.body_complete or turn.refusal is not None:
                # Not from here: a hundred pipelined requests would be answered from within each other.
                self.loop.call_soon(self._answer, turn)
            elif turn.head.expect_continue and not turn.http_1_0:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, exchange: Exchange) -> None:
        if exchange.client_gone:
            return
        exchange.task = task = Driver(relay(exchange, self._gateway), self.loop)
        # The server waits for these when it stops, and cancels what takes too long: all that it knows of tasks.
        self.tasks.add(task)  # type: ignore[arg-type]
        task.resume()

    def exchange_done(self, exchange: Exchange) -> None:
        """The exchange is over: close, or let the next one take its turn."""
        self.server_state.total_requests += 1
        if exchange.task is not None:
            self.tasks.discard(exchange.task)
        if exchange is not self._current or self.transport.is_closing():
            return
        if exchange.keep_alive:
            self._next_turn()
            if exchange.broke_off:
                self.loop.call_later(LAST_CHANCE_SECONDS, self._close_unless_used, self._last_activity)
        elif exchange.body_complete or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self._linger()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self._next_turn()
        else:
            self._current = None

    def _next_turn(self) -> None:
        self._current = None
        self._last_activity = self._began = self.loop.time()
        if self._waiting:
            self._current, app = self._waiting.popleft()
            self._start(self._current, app)
        elif self._last_request_seen:
            self.transport.close()
            return
        if self._held and (self._current is None or self._reading is self._current):
            held = bytes(self._held)
            self._held.clear()
            self._feed(held)
        if self.flow.read_paused and not self._held:
            self.flow.resume_reading()

    # The client leaves, or has to.

    def reset(self) -> None:
        """End the connection with a TCP reset: whatever the client has of an answer, it is not the whole."""
        sock: socket.socket = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _leave(self) -> None:
        self._waiting.clear()
        self._held.clear()
        if isinstance(self._current, Exchange):
            self._current.leave()
        elif self._current is not None:
            self._disconnect(self._current)

    def _disconnect(self, cycle: RequestResponseCycle) -> None:
        if not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _linger(self) -> None:
        """Close, but read and drop for a while what the client is still sending: a reset would take our answer away."""
        self._dropping_input = True
        self._held.clear()
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
