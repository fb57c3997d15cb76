"""One connection to a worker: it carries one exchange at a time and is reused only after a complete response.

Callbacks move the bytes: what one read brought is parsed and handed to the sink at once, as at most one head and one
piece of body, so no task wakes up per chunk. Interim responses (1xx) are swallowed, trailers dropped, and bytes that
nobody asked for end the connection.

Whole chunks pass the parser by: one that is between two chunks is in the same state before a chunk and after it. Where
the sink takes them as they are, a read of whole events in chunks costs next to nothing. Of a response whose head was
known, the parser gets the head only if something comes that needs a parser.
"""

# ruff: noqa: D102 - most methods are those of asyncio's protocols

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from warmroute.gateway.chunked import (
    BEGINS,
    EVENT_END,
    LAST_CHUNK,
    MOST_READ_BYTES,
    ChunkPipe,
    are_events,
    whole_chunks,
)
from warmroute.gateway.errors import BadResponse, ConnectionLost, UpstreamError, WorkerFrozen
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.known_head import KnownStream
from warmroute.gateway.upstream.ends import Owner, Sink
from warmroute.gateway.upstream.parsed import ParsedResponse
from warmroute.gateway.upstream.patience import ANSWERING, FRESH, SOME_BYTES, WAITING, Patience

MAX_HEAD_BYTES = 256 * 1024
"""How much may come before a response's header section has ended; vLLM and SGLang send a few hundred bytes."""

_JOINED_BYTES = 64 * 1024
"""Up to here a request's head and body are joined for one write: the copy is cheaper than a second write."""


class UpstreamConnection(ParsedResponse, asyncio.Protocol):
    """A client connection of HTTP/1.1."""

    __slots__ = (
        "_between",
        "_counted",
        "_missing",
        "_pipe",
        "_since",
        "_sink",
        "_transport",
        "_unparsed",
        "worker_url",
    )

    def __init__(self, owner: Owner, worker_url: str, *, own_cors: bool) -> None:
        super().__init__(owner, own_cors=own_cors)
        self.worker_url = worker_url
        self._sink: Sink | None = None
        self._pipe: ChunkPipe | None = None  # the sink's, while the response is between two chunks
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._counted = False
        self._between = False  # before, between or behind chunks, and not within a line
        self._unparsed = b""  # the head of the response, if the parser has not seen it
        self._missing = 0  # bytes to come of a body whose head was known
        self._since = 0.0

    def send(self, head: bytes, body: bytes, sink: Sink) -> None:
        """Send a request; the response goes to `sink`. ConnectionLost when the worker has closed meanwhile."""
        if self._parser is None:
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

    def data_received(self, data: bytes) -> None:
        pipe = self._pipe
        if pipe is not None:
            size = len(data)
            if (
                size <= MOST_READ_BYTES
                and data.endswith(EVENT_END)
                and (data.startswith(BEGINS[size]) or are_events(data))
            ):
                self._seen = FRESH
                pipe.count += 1
                pipe.before = pipe.last
                pipe.last = data
                pipe.write(data)
                return
        sink = self._sink
        if sink is None or self._parser is None:
            self._transport.abort()
            return
        if self._missing:
            self._go_on_known(data, sink)
            return
        if self._between:
            if self._is_end(data, sink):
                return
        elif not self._seen and self._is_known(data, sink):
            return
        self._parse(self._parser, data, sink)

    def _parse(self, parser: httptools.HttpResponseParser, data: bytes, sink: Sink) -> None:
        self._fed = None
        if not self._seen:
            self._seen = SOME_BYTES
            self._fed = data
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fault = self._fault or str(error)
        pieces = self._pieces
        if self._surplus:
            del pieces[self._wanted_pieces :]
        body = b""
        if pieces:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._seen = FRESH
        head = self._head
        if self._complete:
            self._forget_response()
            self._end_exchange()
            sink.response_received(head, body, True)
            return
        if head is not None or body:
            self._head = None
            sink.response_received(head, body, False)
        if not self._head_read:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fault = "its header section is too large"
        elif self._chunked and not self._in_chunk and data.endswith(b"\n"):
            self._chunk_follows()
        if self._fault:
            self._fail(BadResponse(f"invalid response: {self._fault}", self.worker_url, response_seen=True))

    # What needs no parser.

    def _is_known(self, data: bytes, sink: Sink) -> bool:
        """Begin with a response whose head is known, if it is one."""
        owner = self._owner
        known = owner.known
        if known is not None:
            start = known.head.body_start(data)
            if start >= 0 and (missing := start + known.head.length - len(data)) >= 0:
                head, body = known.fields(), data[start:]
                if missing:
                    self._missing = missing
                    self._seen = FRESH if body else SOME_BYTES
                    sink.response_received(head, body, False)
                else:
                    self._end_exchange()
                    sink.response_received(head, body, True)
                return True
        stream = owner.known_stream
        return stream is not None and data.startswith(stream.head) and self._begin_stream(stream, data, sink)

    def _go_on_known(self, data: bytes, sink: Sink) -> None:
        self._seen = FRESH
        missing = self._missing - len(data)
        if missing > 0:
            self._missing = missing
            sink.response_received(None, data, False)
            return
        self._surplus = missing < 0
        body = data[: self._missing] if missing else data
        self._missing = 0
        self._end_exchange()
        sink.response_received(None, body, True)

    def _begin_stream(self, stream: KnownStream, data: bytes, sink: Sink) -> bool:
        """Begin with a response with that head, unless what follows it is not whole chunks."""
        chunks = whole_chunks(data[len(stream.head) :])
        if chunks is None:
            return False
        self._unparsed = stream.head
        if chunks[0] or chunks[1]:
            self._pass_chunks(stream.fields, *chunks, sink)
        else:
            self._seen = SOME_BYTES
            sink.response_received(stream.fields, b"", False)
            self._chunk_follows()
        return True

    def _is_end(self, data: bytes, sink: Sink) -> bool:
        """End a response that the parser has not seen, if this is its end. Else bring the parser to this place."""
        if self._unparsed and data.endswith(LAST_CHUNK):
            chunks = whole_chunks(data)
            if chunks is not None:
                self._pass_chunks(None, *chunks, sink)
                return True
        self._between = False
        self._pipe = None
        head, self._unparsed = self._unparsed, b""
        if head and self._parser is not None:
            self._fed = None  # what it has been given was of another response
            self._parser.feed_data(head)
            self._head = None
        return False

    def _pass_chunks(self, head: ResponseHead | None, body: bytes, complete: bool, sink: Sink) -> None:
        self._seen = FRESH
        if complete:
            self._between = False
            self._unparsed = b""
            self._end_exchange()
            sink.response_received(head, body, True)
        else:
            sink.response_received(head, body, False)
            self._chunk_follows()

    def _chunk_follows(self) -> None:
        """The response is between two chunks."""
        self._between = True
        if self._sink is not None:
            self._pipe = self._sink.pipe

    def _end_exchange(self) -> None:
        """The response is complete: keep the connection if it is clean, else close it."""
        self._sink = self._pipe = None
        clean = self._keep_alive and not self._surplus and not self._fault
        # A response that came before the whole request was sent leaves the rest of the request in the way.
        if clean and not self._transport.get_write_buffer_size():
            self._seen = WAITING
            self._since = 0.0
            self._owner.connection_free(self)
        else:
            self._transport.abort()

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

    def _fail(self, error: UpstreamError) -> None:
        sink, self._sink = self._sink, None
        self._pipe = None
        self._transport.abort()
        if sink is not None:
            sink.response_failed(error)
