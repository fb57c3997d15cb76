"""One request of a client and the answer to it.

The exchange is the only one that writes an answer, so it alone knows whether one has been started. `fail` therefore
decides what an error becomes: an answer of our own, an event at the end of a broken stream, or a closed connection.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from time import perf_counter

from warmroute.gateway.driver import suspended
from warmroute.gateway.errors import Answer, GatewayError, RequestError, Unavailable, answer_to
from warmroute.gateway.headers import status_line
from warmroute.gateway.passed_answer import PassedAnswer
from warmroute.gateway.sse import error_event
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.telemetry.request_trace import RequestTrace

CLIENT_CLOSED_REQUEST = 499
"""The status that a request is counted with when its client left (nginx's number)."""


class Exchange(PassedAnswer):
    """A request of a client and the state of its answer."""

    # As in what it is made of: defaults of the class cost nothing until they change.
    sent_at = 0.0
    """When the request was handed to the worker last tried, by `perf_counter`."""
    own_answer = ""
    """Which of the outcomes it was if the answer, or its end, is the router's own."""
    trace: RequestTrace | None = None
    client_gone = False
    expired: GatewayError | None = None
    """The deadline that has ended it."""
    broke_off = False
    """Whether the answer is a stream that has ended with an error event."""
    _finished = False

    # The request goes upstream, the response comes back.

    async def forward(self, connection: UpstreamConnection, head: bytes, router_lines: bytes) -> None:
        """Send the request on `connection` and pass the response to the client until it is complete.

        The lease hears of the first byte of a good answer. An error that another worker may make good is not passed
        on: it is in `held` afterwards. UpstreamError when the answer is not completed; the connection is then, and on a
        cancellation, closed.
        """
        if self.client_gone:
            connection.abort()
            raise asyncio.CancelledError
        self._router_lines = router_lines
        self._connection = connection
        if self.client.write_paused:
            connection.pause_reading()
        self.sent_at = perf_counter()
        try:
            connection.send(head, self.body, self)
            await suspended
        except BaseException:
            self.detach()
            raise
        if self.failure is not None:
            self.raise_failure()

    def attach(self, connection: UpstreamConnection | None, router_lines: bytes) -> None:
        """The answer comes from `connection` (None: it is here already); the client also gets `router_lines`.

        It has been judged: whatever it is, it is the client's.
        """
        self._takes_all = True
        self._router_lines = router_lines
        self._connection = connection
        if connection is not None and self.client.write_paused:
            connection.pause_reading()

    def raise_failure(self) -> None:
        """Raise what broke an answer that was being passed on, if anything did."""
        failure, self.failure = self.failure, None
        if failure is not None:
            self._head = None
            self._body_held = None
            self.is_holding = False
            raise failure

    def leave(self) -> None:
        """The client is gone: what is under way upstream ends now, and the coroutine is woken up to clear away."""
        if self._finished:
            return
        self.client_gone = True
        self.detach()
        if self.task is not None:
            self.task.cancel()

    # The end.

    @property
    def may_expire(self) -> bool:
        """Whether it is being served."""
        return self.body_complete and self.task is not None

    def expire(self, error: GatewayError) -> None:
        """It has taken too long: it is ended as if the client had left, but the client is told.

        To be called again while it goes on: a cancellation comes to nothing if what is waited for is done already.
        """
        if self.task is not None:
            self.expired = error
            self.task.cancel()

    def fail(self, error: GatewayError) -> None:
        """End the exchange with `error`, in the way that its state allows."""
        answer = answer_to(error, begun=self.started)
        if self.started:
            self.own_answer = "broken"
        else:
            self.own_answer = "refused" if isinstance(error, RequestError | Unavailable) else "failed"
        if self.pipe is not None:
            self._catch_up(self.pipe)
        if self._finished or self.client_gone:
            self.status = self.status or CLIENT_CLOSED_REQUEST
            return
        if not self.started:
            self.status = answer.status
            self.client.transport.write(self._render(answer))
            self.started = True
            return
        self.status = answer.status
        event = error_event(answer.body, self.answer_tail) if self._event_stream else b""
        if event and self._chunked:
            # The message is whole: the connection is fit for another, which may be on its way already.
            self.broke_off = True
            self.client.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))
            return
        self.keep_alive = False
        if event and self._until_close:
            self.client.transport.write(event)
        elif self._until_close:
            # An orderly end would tell this client that the body is complete.
            self.client.reset()

    def finish(self) -> None:
        """The exchange is over, however it ended; idempotent."""
        if self._finished:
            return
        self._finished = True
        if self.body or self.body_pieces:
            self.drop()
        self.lease = None
        self.client.exchange_done(self)
        self.task = None

    def _render(self, answer: Answer) -> bytes:
        lines = [
            status_line(answer.status, HTTPStatus(answer.status).phrase.encode()),
            b"content-type: application/json\r\ncontent-length: %d\r\n" % len(answer.body),
        ]
        lines += [b"%b: %b\r\n" % header for header in answer.headers]
        return b"".join((*lines, self._own_lines(), answer.body))
