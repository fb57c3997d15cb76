"""What a client asks: one request, read as far as it has come, and what goes upstream of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from warmroute.engines.dialect import Request
from warmroute.gateway.errors import GatewayError
from warmroute.gateway.headers import RequestHead
from warmroute.gateway.upstream.address import Address
from warmroute.prompts.body import Kind
from warmroute.prompts.fields import HandoverFields
from warmroute.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from warmroute.gateway.exchange import Exchange

_NO_REQUEST = Request(b"", "other", False, "")


class ClientConnection(Protocol):
    """What an exchange needs of the connection that its client came on."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    write_paused: bool
    """Whether the client reads more slowly than we write."""

    def reset(self) -> None:
        """End the connection with a TCP reset."""

    def exchange_done(self, exchange: Exchange) -> None:
        """The exchange is over; the next one may be answered, or the connection closed."""


class ClientRequest:
    """A request. Its client's connection reads it."""

    # How every request begins. As defaults of the class they cost nothing until they change.
    body = b""
    """The request body, once it is complete."""
    fields: HandoverFields | None = None
    """What the body says, until whoever hands it over takes that."""
    body_size = 0
    body_complete = False
    complete_at = 0.0
    keep_alive = False
    """Whether the connection may carry another request after this one."""
    http_1_0 = False
    extra_headers = b""
    """More lines for the head of the answer, each with its CRLF."""
    refusal: GatewayError | None = None
    key_holder = -1
    """Whose key it counts for, where keys have limits."""

    def __init__(
        self,
        client: ClientConnection,
        head: RequestHead,
        metrics: Metrics,
        request_id: bytes,
        kind: Kind = "other",
        target: bytes = b"",
    ) -> None:
        self.client = client
        self.head = head
        self.request_id = request_id
        self.kind = kind
        self.target = target
        self.body_pieces: list[bytes | bytearray] = []
        self.request = _NO_REQUEST
        """What pairs of workers get; whoever serves by pairs sets it."""
        self._metrics = metrics

    def fold_body(self) -> None:
        """Make one piece of what has come: each of many small ones takes many times its size."""
        first, *others = self.body_pieces
        folded = first if isinstance(first, bytearray) else bytearray(first)
        folded += b"".join(others)
        self.body_pieces = [folded]

    def complete_body(self) -> None:
        """The last piece has come."""
        pieces = self.body_pieces
        first = pieces[0] if pieces else b""
        self.body = first if len(pieces) == 1 and isinstance(first, bytes) else b"".join(pieces)
        pieces.clear()
        self.body_complete = True

    def head_for(self, address: Address, body_size: int) -> bytes:
        """The head of the request for a worker, with a body of that many bytes."""
        return b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\nx-request-id: %b\r\n\r\n" % (
            self.target,
            address.lines,
            self.head.forwarded,
            body_size,
            self.request_id,
        )

    def drop(self) -> None:
        """Nothing is sent again from now on, and an answer may take long: do not keep what may be megabytes."""
        self.body = b""
        if self.body_pieces:
            self.body_pieces.clear()
        if self.request is not _NO_REQUEST:
            self.request = _NO_REQUEST
