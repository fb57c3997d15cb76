"""One connection to a worker: it carries one exchange at a time and is reused only after a complete response."""

# ruff: noqa: D102 - most methods are those of asyncio's protocols

from __future__ import annotations

import asyncio
from typing import cast

from warmroute.gateway.errors import ConnectionLost, UpstreamError, WorkerFrozen
from warmroute.gateway.upstream.ends import Owner, Sink
from warmroute.gateway.upstream.incoming import IncomingResponse
from warmroute.gateway.upstream.patience import ANSWERING, FRESH, SOME_BYTES, WAITING, Patience

_JOINED_BYTES = 64 * 1024
"""Up to here a request's head and body are joined for one write: the copy is cheaper than a second write."""


class UpstreamConnection(IncomingResponse, asyncio.Protocol):
    """A client connection of HTTP/1.1."""

    __slots__ = ("_counted", "_since")

    def __init__(self, owner: Owner, worker_url: str, *, own_cors: bool) -> None:
        super().__init__(owner, worker_url, own_cors=own_cors)
        self._counted = False
        self._since = 0.0

    def send(self, head: bytes, body: bytes, sink: Sink) -> None:
        """Send a request; the response goes to `sink`. ConnectionLost when the worker has closed meanwhile."""
        if self._parser is None or self._transport.is_closing():
            raise ConnectionLost("connection closed before the request was sent", self.worker_url)
        self._sink = sink
        if len(body) <= _JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, or is ending: nothing can be sent any more."""
        return self._transport.is_closing()

    def hand_to(self, sink: Sink) -> None:
        """The rest of the response under way goes to `sink`."""
        self._sink = sink
        self._pipe = None

    def abort(self) -> None:
        """Close at once, whatever is under way; the sink hears no more.

        A connection that is not open yet, or was never delivered, may be closed by the loop without a word.
        """
        self._sink = self._pipe = None
        self._uncount()
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Let the worker wait; idempotent."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on; idempotent."""
        self._transport.resume_reading()

    def _end_exchange(self) -> None:
        """The response is complete: keep the connection if it is clean, else close it."""
        if self._keep_alive and not self._surplus and not self._fault:
            self._free()
        else:
            self._sink = self._pipe = None
            self._transport.abort()

    def _free(self) -> None:
        self._sink = self._pipe = None
        # A response that came before the whole request was sent leaves the rest of the request in the way.
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._seen = WAITING
            self._since = 0.0
            self._owner.connection_free(self)

    # Deadlines. Nothing is done for them per request or per chunk but to write `_seen`: a sweep looks at it.

    def check(self, now: float, patience: Patience) -> UpstreamError | None:
        """End a response that has been waited for too long; what it was ended with, if it was. `now` in seconds."""
        sink, seen = self._sink, self._seen
        if sink is None:
            return None
        if seen == FRESH or not self._since or not self._transport.is_reading():
            # Only now is it known when it was quiet. While the client does not read, the worker waits.
            self._since = now
            if seen == FRESH:
                self._seen = ANSWERING
            return None
        error = patience.over(now - self._since, seen, is_holding=sink.is_holding, worker_url=self.worker_url)
        if error is not None:
            self._fail(error)
        return error

    @property
    def is_unanswered(self) -> bool:
        """Whether a request was sent of whose answer no byte of the body has come."""
        return self._sink is not None and self._seen <= SOME_BYTES

    def give_up_unanswered(self) -> bool:
        """End the response if no byte of its body has come: the worker is frozen. Returns whether it was."""
        if not self.is_unanswered:
            return False
        message = "it takes requests and answers none"
        self._fail(WorkerFrozen(message, self.worker_url, response_seen=self._seen > WAITING))
        return True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._counted = True
        self._owner.connection_opened(self)

    def eof_received(self) -> None:
        self._ended()
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)
        self._parser = None
        self._uncount()

    def _uncount(self) -> None:
        if self._counted:
            self._counted = False
            self._owner.connection_ended(self)

    def _ended(self, exc: Exception | None = None) -> None:
        """No more bytes will come. That completes a body without a declared end, and breaks any other response."""
        sink = self._sink
        if sink is None:
            return
        if self._until_close and exc is None:
            self._sink = self._pipe = None
            sink.response_received(None, b"", True)
            return
        reason = "connection closed" if exc is None else f"connection lost: {exc}"
        self._fail(
            ConnectionLost(
                f"{reason} before the response was complete", self.worker_url, response_seen=self._seen > WAITING
            )
        )
