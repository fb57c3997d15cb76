"""The client's side of a connection: uvicorn's protocol with the inference paths taken out before ASGI.

`request_reading.py` reads requests, `turns.py` decides when each is answered; here a connection begins and ends.

The client counts as gone at its end-of-file, as in nginx and Envoy: a client that closes only its sending half looks
the same as one that has left, and LLM answers are too dear to be made for nobody.
"""

# ruff: noqa: D102 - most methods are those of asyncio's protocols

from __future__ import annotations

import asyncio
import functools

from warmroute.gateway.deadlines import Deadlines
from warmroute.gateway.errors import RequestDeadline, RequestTimeout
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.limits import LAST_CHANCE_SECONDS, MAX_HELD_BYTES, SECOND_LOOK_SECONDS
from warmroute.gateway.request_reading import RequestReading


class ClientProtocol(RequestReading):
    """One client connection: its beginning, its end and its deadlines."""

    _idle_since = -1.0  # what has been found idle once; a request may have been on its way

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._gateway.clients.add(self)
        descriptors = self._gateway.descriptors
        descriptors.clients += 1
        if descriptors.is_short:
            if descriptors.is_exhausted:
                transport.abort()
                return
            self._is_surplus = True
            self.loop.call_later(LAST_CHANCE_SECONDS, self._close_surplus)

    def data_received(self, data: bytes) -> None:
        self._last_activity = self.loop.time()
        if self._current is None:
            known = self._known
            if known is not None and self._reading is None and not (self._in_head or self._last_request_seen):
                start = known.head.body_start(data)
                if start >= 0 and len(data) - start <= known.head.length <= self._gateway.max_body_bytes:
                    self._begin_known(known, data[start:])
                    return
        elif self._dropping_input:
            return
        elif self._reading is not self._current:
            self._held += data
            if len(self._held) > MAX_HELD_BYTES:
                self.flow.pause_reading()
            return
        self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gateway.clients.discard(self)
        self._gateway.descriptors.clients -= 1
        super().connection_lost(exc)

    def _close_unless_used(self, since: float, *, looked: bool = False) -> None:
        if self._current is not None or self._in_head or self._last_activity != since:
            return
        if looked:
            self.transport.close()
        else:
            self.loop.call_later(SECOND_LOOK_SECONDS, functools.partial(self._close_unless_used, since, looked=True))

    def _close_surplus(self) -> None:
        """A surplus connection has to ask at once, whether it is idle or sends slowly."""
        if self._current is None and self._gateway.descriptors.is_short:
            self.transport.close()

    # Deadlines.

    def check(self, now: float, deadlines: Deadlines) -> None:
        """Act on what has taken too long. Called again and again."""
        current, idle = self._current, deadlines.idle
        if self._unread_since is not None:
            if 0 < idle <= now - self._unread_since:
                self._over("client_unread")
                self.reset()  # what it has not read would hold back an orderly end, too
        elif self._reading is None and not self._in_head:
            if current is None and 0 < idle <= now - self._last_activity:
                if self._idle_since == self._last_activity:
                    self._over("client_idle")
                    self.transport.close()
                self._idle_since = self._last_activity
        elif current is None or self._reading is current:
            self._check_reading(now, deadlines)
        if isinstance(current, Exchange) and 0 < deadlines.request <= now - current.complete_at and current.may_expire:
            if current.expired is None:
                self._over("request")
            current.expire(RequestDeadline(deadlines.request))

    def _check_reading(self, now: float, deadlines: Deadlines) -> None:
        reading = self._reading
        size = reading.body_size if isinstance(reading, Exchange) else self._control_body_bytes
        what = deadlines.reading_is_over(self._began, self._last_activity, size, now)
        if not what:
            return
        self._over("client_read")
        if reading is None:
            self._refuse(RequestTimeout(f"Invalid request: {what}"))
        elif isinstance(reading, Exchange):
            self._refuse_rest(RequestTimeout(f"Invalid request body: {what}"))
        else:
            self.transport.close()

    def _over(self, deadline: str) -> None:
        self._gateway.metrics.deadline_over(deadline)
