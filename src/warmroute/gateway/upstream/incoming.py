"""The response that comes on a connection to a worker.

Callbacks move the bytes: what one read brought is parsed and handed to the sink at once, as at most one head and one
piece of body, so no task wakes up per chunk. Interim responses (1xx) are swallowed, trailers dropped, and bytes that
nobody asked for end the connection.

Whole chunks pass the parser by: one that is between two chunks is in the same state before a chunk and after it. Where
the sink takes them as they are, a read of whole events in chunks costs next to nothing. Of a response whose head was
known, the parser gets the head only if something comes that needs a parser.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from warmroute.gateway.chunked import (
    BEGINS,
    EVENT_ENDS,
    LAST_CHUNK,
    MOST_READ_BYTES,
    ChunkPipe,
    are_events,
    whole_chunks,
)
from warmroute.gateway.errors import BadResponse, UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.known_head import KnownStream
from warmroute.gateway.upstream.ends import Owner, Sink
from warmroute.gateway.upstream.parsed import ParsedResponse
from warmroute.gateway.upstream.patience import FRESH, SOME_BYTES

MAX_HEAD_BYTES = 256 * 1024
"""How much may come before a response's header section has ended; vLLM and SGLang send a few hundred bytes."""


class IncomingResponse(ParsedResponse):
    """Reads responses, one after the other, and hands each to the sink of its request."""

    __slots__ = (
        "_between",
        "_missing",
        "_pipe",
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
        self._between = False  # before, between or behind chunks, and not within a line
        self._unparsed = b""  # the head of the response, if the parser has not seen it
        self._missing = 0  # bytes to come of a body whose head was known

    def _end_exchange(self) -> None:
        """The response is complete; the sink has yet to hear it."""
        raise NotImplementedError

    def _free(self) -> None:
        """The same for one after which nothing is in the way of another exchange."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        """What one read brought."""
        pipe = self._pipe
        if pipe is not None:
            size = len(data)
            if (
                size <= MOST_READ_BYTES
                and data.endswith(EVENT_ENDS)
                and (data.startswith(BEGINS[size]) or are_events(data))
            ):
                self._seen = FRESH
                pipe.count += 1
                pipe.before = pipe.last
                pipe.last = data
                pipe.write(data)
                return
        sink = self._sink
        if sink is None:
            self._transport.abort()
            return
        if not self._seen:
            if self._is_known(data, sink):
                return
        elif self._missing:
            self._go_on_known(data, sink)
            return
        elif self._between and self._is_end(data, sink):
            return
        if self._parser is not None:
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
                head, body = known.first if sink.drops_good else known.fields(), data[start:]
                if missing:
                    self._missing = missing
                    self._seen = FRESH if body else SOME_BYTES
                    sink.response_received(head, body, False)
                else:
                    self._free()
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
        # Line ends behind an answer are nothing to the parser, either.
        self._surplus = missing < 0 and bool(data[missing:].strip(b"\r\n"))
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

    def _fail(self, error: UpstreamError) -> None:
        sink, self._sink = self._sink, None
        self._pipe = None
        self._transport.abort()
        if sink is not None:
            sink.response_failed(error)
