"""One request of a client and the answer to it.

The exchange is the only one that writes an answer, so it alone knows whether one has been started. `fail` therefore
decides what an error becomes: an answer of our own, an event at the end of a broken stream, or a closed connection.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Protocol

from warmroute.gateway.errors import Answer, GatewayError, UpstreamError, answer_to
from warmroute.gateway.headers import Framing, RequestHead, ResponseHead, status_line
from warmroute.gateway.sse import TAIL_BYTES, error_event
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.prompts.body import Kind

CLIENT_CLOSED_REQUEST = 499
"""The status that a request is counted with when its client left (nginx's number)."""


class ClientConnection(Protocol):
    """What an exchange needs of the connection that its client came on."""

    transport: asyncio.Transport

    @property
    def write_paused(self) -> bool:
        """Whether the client reads more slowly than we write."""

    def reset(self) -> None:
        """End the connection with a TCP reset."""

    def exchange_done(self, exchange: Exchange) -> None:
        """The exchange is over; the next one may be answered, or the connection closed."""


class Observer(Protocol):
    """Who wants to know of the progress of a response."""

    def response_began(self) -> None:
        """The worker's status line and headers are there."""

    def first_body_byte(self) -> None:
        """The first byte of the worker's answer is there."""


class Exchange:
    """A request, read as far as it has come, and the state of its answer."""

    __slots__ = (
        "_body_seen",
        "_chunked",
        "_connection",
        "_event_stream",
        "_extra_headers",
        "_finished",
        "_observer",
        "_tail",
        "_until_close",
        "_url_line",
        "_waiter",
        "body_complete",
        "body_pieces",
        "body_size",
        "client",
        "client_gone",
        "complete_at",
        "head",
        "http_1_0",
        "keep_alive",
        "kind",
        "refusal",
        "request_id",
        "started",
        "status",
        "target",
        "task",
    )

    def __init__(
        self,
        client: ClientConnection,
        head: RequestHead,
        *,
        request_id: bytes,
        kind: Kind | None = None,
        target: bytes = b"",
        keep_alive: bool = False,
        http_1_0: bool = False,
        extra_headers: bytes = b"",
    ) -> None:
        self.client = client
        self.head = head
        self.request_id = request_id
        self.kind = kind
        self.target = target
        self.keep_alive = keep_alive
        self.http_1_0 = http_1_0
        self.body_pieces: list[bytes] = []
        self.body_size = 0
        self.body_complete = False
        self.complete_at = 0.0
        self.refusal: GatewayError | None = None
        self.task: asyncio.Task[None] | None = None
        self.client_gone = False
        self.started = False
        self.status = 0
        self._extra_headers = extra_headers
        self._finished = False
        self._connection: UpstreamConnection | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._observer: Observer | None = None
        self._url_line = b""
        self._body_seen = False
        self._chunked = False
        self._until_close = False
        self._event_stream = False
        self._tail = b""

    @property
    def body(self) -> bytes:
        """The request body, once it is complete."""
        pieces = self.body_pieces
        if len(pieces) > 1:
            self.body_pieces = pieces = [b"".join(pieces)]
        return pieces[0] if pieces else b""

    # The request goes upstream, the response comes back.

    async def forward(self, connection: UpstreamConnection, head: bytes, url_line: bytes, observer: Observer) -> None:
        """Send the request on `connection` and pass the response to the client until it is complete.

        UpstreamError when it is not completed. The connection is then, and on a cancellation, closed.
        """
        self._observer = observer
        self._url_line = url_line
        self._connection = connection
        self._waiter = asyncio.get_running_loop().create_future()
        if self.client.write_paused:
            connection.pause_reading()
        connection.send(head, self.body, self)
        try:
            await self._waiter
        finally:
            if self._connection is not None:
                self._connection.abort()
                self._connection = None

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        """Pass on what one read from the worker brought."""
        if complete:
            self._connection = None
        out = b"" if head is None else self._begin(head)
        if body:
            if not self._body_seen:
                self._body_seen = True
                if self._observer is not None:
                    self._observer.first_body_byte()
            if self._event_stream:
                self._tail = body[-TAIL_BYTES:] if len(body) >= TAIL_BYTES else (self._tail + body)[-TAIL_BYTES:]
            if self._chunked:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            out = out + body if out else body
        if complete:
            if self._chunked:
                out += b"0\r\n\r\n"
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
        if out:
            self.client.transport.write(out)

    def response_failed(self, error: UpstreamError) -> None:
        """The worker's response has broken; whoever awaits `forward` decides what comes of it."""
        self._connection = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _begin(self, head: ResponseHead) -> bytes:
        """The head for the client. A body is framed anew where its framing belongs to the worker's connection."""
        self.started = True
        self.status = head.status
        self._event_stream = head.event_stream
        if self._observer is not None:
            self._observer.response_began()
        framing = b""
        if head.framing is Framing.CHUNKED or head.framing is Framing.UNTIL_CLOSE:
            if self.http_1_0:
                self._until_close = True
                self.keep_alive = False
            else:
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
        return b"".join(
            (status_line(head.status, head.reason), head.forwarded, framing, self._url_line, self._own_lines())
        )

    def _own_lines(self) -> bytes:
        """The last lines of every head, ours or a worker's, with the empty line that ends it."""
        close = b"" if self.keep_alive else b"connection: close\r\n"
        return b"%bx-request-id: %b\r\n%b\r\n" % (self._extra_headers, self.request_id, close)

    # The client's side.

    def pause(self) -> None:
        """The client reads more slowly than the worker writes: let the worker wait."""
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> None:
        """The client has caught up."""
        if self._connection is not None:
            self._connection.resume_reading()

    def leave(self) -> None:
        """The client is gone: what is under way upstream ends now, and the coroutine is woken up to clear away."""
        if self._finished or (self._waiter is not None and self._waiter.done()):
            return
        self.client_gone = True
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        if self.task is not None:
            self.task.cancel()

    # The end.

    def fail(self, error: GatewayError) -> None:
        """End the exchange with `error`, in the way that its state allows."""
        answer = answer_to(error)
        if self._finished or self.client_gone:
            self.status = self.status or CLIENT_CLOSED_REQUEST
            return
        if not self.started:
            self.status = answer.status
            self.client.transport.write(self._render(answer))
            self.started = True
            return
        self.status = answer.status
        self.keep_alive = False
        if self._event_stream and (self._chunked or self._until_close):
            event = error_event(answer.body, self._tail)
            if self._chunked:
                event = b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
            self.client.transport.write(event)
        elif self._until_close:
            # An orderly end would tell this client that the body is complete.
            self.client.reset()

    def finish(self) -> None:
        """The exchange is over, however it ended; idempotent."""
        if self._finished:
            return
        self._finished = True
        self.body_pieces.clear()
        self.task = None
        self._observer = None
        self.client.exchange_done(self)

    def _render(self, answer: Answer) -> bytes:
        lines = [
            status_line(answer.status, HTTPStatus(answer.status).phrase.encode()),
            b"content-type: application/json\r\ncontent-length: %d\r\n" % len(answer.body),
        ]
        lines += [b"%b: %b\r\n" % header for header in answer.headers]
        return b"".join((*lines, self._own_lines(), answer.body))
