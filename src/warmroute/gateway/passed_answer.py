"""The answer of a worker on its way to the client: what one read brought becomes one write."""

from __future__ import annotations

from warmroute.engines.dialect import MAX_HELD_BYTES
from warmroute.gateway.chunked import ChunkPipe
from warmroute.gateway.client_request import ClientRequest
from warmroute.gateway.driver import Driver
from warmroute.gateway.errors import StreamUnfinished, UpstreamError
from warmroute.gateway.explaining import decision_line
from warmroute.gateway.headers import Framing, ResponseHead, status_line
from warmroute.gateway.held import REPLACED_STATUSES, HeldAnswer
from warmroute.gateway.sse import is_done
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.decisions import Decision

# An attribute of an Enum costs a call.
_LENGTH, _NONE, _CHUNKED = Framing.LENGTH, Framing.NONE, Framing.CHUNKED

ANSWER_TAIL_BYTES = 4096
"""How much of the end of an answer may be looked at. Usage is the last thing in it, but for `[DONE]`."""


class PassedAnswer(ClientRequest):
    """A request and the answer to it that a worker gives."""

    # How every answer begins. As defaults of the class they cost nothing until they change.
    first_byte_at = 0.0
    pieces = 0
    """So many reads brought the body of the answer."""
    pipe: ChunkPipe | None = None
    """Takes chunks of the answer as they are, once it has begun; None where it has, or needs, another framing."""
    decision: Decision | None = None
    """How its worker was chosen, if somebody wants to know."""
    may_not_know = False
    """Whether somebody wants to, and has not shown the key for it."""
    lease: Lease | PairLease | None = None
    task: Driver | None = None
    started = False
    is_answered = False
    """Whether a worker's answer has been passed on, to its end."""
    failure: UpstreamError | None = None
    """What broke an answer of a worker, until somebody has heard of it."""
    status = 0
    held: HeldAnswer | None = None
    """A worker's error that was not passed on."""
    is_holding = False
    """Whether such an error is under way."""
    drops_good = False
    _connection: UpstreamConnection | None = None
    _router_lines = b""
    _takes_all = False
    _head: ResponseHead | None = None
    _body_held: bytearray | None = None
    _needs_done = False
    _chunked = False
    _until_close = False
    _event_stream = False
    _earlier = b""
    _tail = b""

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        """Pass on what one read from the worker brought. The head waits for the first byte of the body."""
        if complete:
            self._connection = None
        if self.started:
            if self.pipe is not None and self.pipe.count:
                self._catch_up(self.pipe)
            out = b""
        else:
            if head is None:
                head = self._head
                if head is None:
                    return
            if head.status in REPLACED_STATUSES and not self._takes_all:
                self._hold(head, body, complete)
                return
            if not body and not complete:
                self._head = head
                return
            out = self._begin(head)
            if body and head.status < 400:
                self._first_body_byte()
        if body:
            self.pieces += 1
            tail = self._tail
            if len(tail) + len(body) <= ANSWER_TAIL_BYTES:
                self._tail = tail + body
            else:  # together they are longer than what may be looked at
                self._earlier = tail
                self._tail = body
            if self._chunked:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            out = out + body if out else body
        if complete:
            if self._needs_done and not is_done(self.answer_tail):
                self._unfinished()
            else:
                self.is_answered = True
                if self._chunked:
                    out += b"0\r\n\r\n"
            if out:
                self.client.transport.write(out)
            if self.task is not None:
                self.task.resume()
        elif out:
            self.client.transport.write(out)

    def _catch_up(self, pipe: ChunkPipe) -> None:
        """Take note of what went past `response_received`."""
        self.pieces += pipe.count
        if pipe.count > 2:  # a gap lies before the two that it still has; but no event does
            self._earlier = self._tail = b""
        for body in pipe.take():
            self._earlier, self._tail = (self._earlier + self._tail)[-ANSWER_TAIL_BYTES:], body

    def response_failed(self, error: UpstreamError) -> None:
        """The worker's response has broken; whoever awaits `forward` decides what comes of it."""
        self._connection = None
        self.failure = error
        if self.pipe is not None:
            self._catch_up(self.pipe)
        self.wake()

    def _hold(self, head: ResponseHead, body: bytes, complete: bool) -> None:
        """Keep an error back until it is whole: another worker may do better. One that is too long is the client's."""
        held = self._body_held
        if held is None:
            self._head = head
            held = self._body_held = bytearray()
        held += body
        self.is_holding = not complete
        if not complete and len(held) <= MAX_HELD_BYTES:
            return
        self._body_held = None
        if complete:
            self.held = HeldAnswer(head, bytes(held), self._router_lines, head.status)
            self._head = None
            self.wake()
        else:
            self._takes_all = True
            self.is_holding = False
            self.response_received(head, bytes(held), False)

    def _unfinished(self) -> None:
        """The stream is over, and was not meant to be."""
        self.failure = StreamUnfinished("" if self.lease is None else self.lease.worker.url)

    def _first_body_byte(self) -> None:
        """The first byte of a good answer has come."""
        lease = self.lease
        if lease is not None:
            lease.first_token()
            self.first_byte_at = now = self.client.loop.time()
            seconds = now - self.complete_at
            if self._metrics.records:
                self._metrics.ttft.observe(seconds)
            tally = lease.worker.tally
            tally.first_tokens += 1
            tally.ttft_seconds += seconds

    def _begin(self, head: ResponseHead) -> bytes:
        """The head for the client. A body is framed anew where its framing belongs to the worker's connection."""
        self.started = True
        self.status = head.status
        self.drop()
        if self._head is not None:
            self._head = None
        if head.event_stream:
            self._event_stream = True
            self._needs_done = head.status == 200 and self.kind != "other"
        lease = self.lease
        metrics = self._metrics
        if lease is not None and metrics.records:
            metrics.prompt_tokens += lease.prompt.tokens
            metrics.matched_tokens += lease.matched_tokens
        framing = head.framing
        lines = self._router_lines
        if framing is not _LENGTH and framing is not _NONE:
            if self.http_1_0:
                self._until_close = True
                self.keep_alive = False
            else:
                self._chunked = True
                if framing is _CHUNKED:
                    self.pipe = ChunkPipe(self.client.transport.write)
                lines = b"transfer-encoding: chunked\r\n" + lines
        return b"".join((status_line(head.status, head.reason), head.forwarded, lines, self._own_lines()))

    def _own_lines(self) -> bytes:
        """The last lines of every head, ours or a worker's, with the empty line that ends it."""
        if self.decision is not None or self.may_not_know:
            self.extra_headers += decision_line(self.decision)
        close = b"" if self.keep_alive else b"connection: close\r\n"
        return b"%bx-request-id: %b\r\n%b\r\n" % (self.extra_headers, self.request_id, close)

    # What others want to know of it, or to happen to it.

    @property
    def is_stream(self) -> bool:
        """Whether a worker's answer is an event stream."""
        return self._event_stream

    @property
    def is_broken_stream(self) -> bool:
        """Whether the client has a part of an event stream."""
        return self.started and self._event_stream

    @property
    def answer_tail(self) -> bytes:
        """The last bytes of the answer: at most ANSWER_TAIL_BYTES; fewer if only its last events are still known."""
        tail = self._tail
        if self._earlier and len(tail) < ANSWER_TAIL_BYTES:
            tail = self._earlier[-ANSWER_TAIL_BYTES:] + tail
        return tail[-ANSWER_TAIL_BYTES:]

    def wake(self) -> None:
        """Let the coroutine go on that waits for what becomes of this exchange."""
        if self.task is not None:
            self.task.resume()

    def detach(self) -> None:
        """Close the connection of an answer that is not complete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        if self.pipe is not None:
            self._catch_up(self.pipe)

    def pause(self) -> None:
        """The client reads more slowly than the worker writes: let the worker wait."""
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> None:
        """The client has caught up."""
        if self._connection is not None:
            self._connection.resume_reading()
