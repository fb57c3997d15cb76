"""What the parser tells of the response that comes on a connection to a worker."""

from __future__ import annotations

from functools import partial

import httptools

from warmroute.gateway.headers import Framing, Header, ResponseHead, interim_fault, read_response_head
from warmroute.gateway.known_head import KnownResponse, KnownStream
from warmroute.gateway.upstream.ends import Owner
from warmroute.gateway.upstream.patience import FRESH, WAITING

_NO_TRAILERS = (b"transfer-encoding", b"content-length", b"connection", b"upgrade")
"""Fields that say where a message ends, or what follows it (RFC 9110, section 6.5.1)."""


class ParsedResponse:
    """Takes the calls of its parser. What they leave is read when the parser has taken what one read brought."""

    # More attributes than the instances of a class share the keys of, with those of the connection.
    __slots__ = (
        "_chunked",
        "_complete",
        "_fault",
        "_fed",
        "_head",
        "_head_bytes",
        "_head_read",
        "_headers",
        "_in_chunk",
        "_interim",
        "_keep_alive",
        "_own_cors",
        "_owner",
        "_parser",
        "_pieces",
        "_reason",
        "_seen",
        "_surplus",
        "_until_close",
        "_wanted_pieces",
        "on_body",
        "on_chunk_complete",
        "on_chunk_header",
    )

    def __init__(self, owner: Owner, *, own_cors: bool) -> None:
        self._owner = owner
        self._own_cors = own_cors
        self._pieces: list[bytes] = []
        # Bound to the list itself, a piece of body costs no Python frame.
        self.on_body = self._pieces.append
        # Nor does a chunk: one that has begun and not ended is an entry of this list.
        self._in_chunk: list[None] = []
        self.on_chunk_header = partial(self._in_chunk.append, None)
        self.on_chunk_complete = self._in_chunk.clear
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # The response under way. What a clean one leaves unchanged is not set anew for the next.
        self._headers: list[Header] = []
        self._reason = b""
        self._head: ResponseHead | None = None
        self._head_read = False
        self._head_bytes = 0
        self._interim = False
        self._keep_alive = True
        self._until_close = False
        self._chunked = False
        self._complete = False
        self._surplus = False
        self._wanted_pieces = 0
        self._fed: bytes | None = None  # what the parser has got of this response, if it was one piece
        self._seen = WAITING
        self._fault = ""

    def _forget_response(self) -> None:
        """The parser has come to the end of a response, and another may follow."""
        self._headers.clear()
        self._reason = b""
        self._head = None
        self._head_read = self._complete = self._chunked = False
        self._head_bytes = 0

    def on_message_begin(self) -> None:
        """A response begins; after a complete one it is one that nobody asked for."""
        if self._complete and not self._surplus:
            self._surplus = True
            self._wanted_pieces = len(self._pieces)

    def on_status(self, reason: bytes) -> None:
        """The reason phrase, or a part of it."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field of the header section; after that, of the trailers."""
        if not self._head_read:
            self._headers.append((name, value))
        elif name.lower() in _NO_TRAILERS:
            self._keep_alive = False  # the parser would read the next response by it

    def on_headers_complete(self) -> None:
        """The header section has ended. ValueError, which ends the parsing, for one that cannot be passed on."""
        if self._complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._interim = True
            self._fed = None
            self._fault = interim_fault(status, self._headers)
            if self._fault:
                raise ValueError(self._fault)
            return
        self._head_read = True
        self._keep_alive = self._parser.should_keep_alive()
        try:
            self._head = read_response_head(status, self._reason, self._headers, own_cors=self._own_cors)
        except ValueError as error:
            self._fault = str(error)
            raise
        self._until_close = self._head.framing is Framing.UNTIL_CLOSE
        self._chunked = self._head.framing is Framing.CHUNKED
        if self._fed is not None and self._keep_alive:
            self._owner.known = KnownResponse.of(self._fed, self._head) or self._owner.known
            self._owner.known_stream = KnownStream.of(self._fed, self._head) or self._owner.known_stream
        if status >= 400:
            self._seen = FRESH  # an engine thinks before it answers, not in the middle of an error

    def on_message_complete(self) -> None:
        """A response has ended; an interim one makes room for the one it announces."""
        if self._interim:
            self._interim = False
            self._headers = []
            self._reason = b""
        elif not self._fault:
            self._complete = True
