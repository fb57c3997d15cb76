"""What a hostile engine may send: the same whatever the cuts, and nothing but one valid response to the client."""

from __future__ import annotations

from dataclasses import dataclass

import h11
from tests.fuzz.cutting import pieces_of
from tests.gateway.fakes import FakeTransport

from warmroute.gateway.chunked import ChunkPipe
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import RequestHead, ResponseHead
from warmroute.gateway.known_head import KnownResponse, KnownStream
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.telemetry.metrics import Metrics


class _Loop:
    """A clock that stands still."""

    def time(self) -> float:
        return 0.0


class _Client:
    """The client's end: records what an exchange writes."""

    write_paused = False

    def __init__(self) -> None:
        self.loop = _Loop()
        self.transport = FakeTransport()

    def reset(self) -> None:
        self.transport.closed = True

    def exchange_done(self, exchange: Exchange) -> None:
        """Nothing follows."""


class _Owner:
    """Keeps a connection, and what it has learned of heads."""

    known: KnownResponse | None = None
    known_stream: KnownStream | None = None

    def __init__(self) -> None:
        self.kept = 0

    def connection_opened(self, connection: UpstreamConnection) -> None:
        """Counted by nobody."""

    def connection_free(self, connection: UpstreamConnection) -> None:
        self.kept += 1

    def connection_ended(self, connection: UpstreamConnection) -> None:
        """Counted by nobody."""


class _Sink:
    """Records a response, and passes it to an exchange."""

    is_holding = False
    drops_good = False

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.head: ResponseHead | None = None
        self.complete = False
        self.error: UpstreamError | None = None

    @property
    def pipe(self) -> ChunkPipe | None:
        """Let chunks pass; what does is known to the client only."""
        return self.exchange.pipe

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        assert not self.complete, "more after the end"
        assert self.error is None, "more after a failure"
        if head is not None:
            assert self.head is None, "two heads"
            self.head = head
        assert self.head is not None, "a body without a head"
        self.complete = complete
        self.exchange.response_received(head, body, complete)

    def response_failed(self, error: UpstreamError) -> None:
        assert not self.complete
        assert self.error is None
        self.error = error


@dataclass
class _Answer:
    """One response, as far as it came. `body` is what a client reads of it."""

    head: ResponseHead | None
    complete: bool
    error: type[UpstreamError] | None
    is_kept: bool
    body: bytes


def _play(pieces: list[bytes], owner: _Owner, times: int = 1) -> list[_Answer]:
    """What comes of these pieces, so many times on one connection as long as it is kept."""
    transport, answers = FakeTransport(), []
    connection = UpstreamConnection(owner, "http://w", own_cors=False)
    connection.connection_made(transport)
    for _ in range(times):
        kept = owner.kept
        client = _Client()
        exchange = Exchange(client, RequestHead(), Metrics(), b"id")  # type: ignore[arg-type]
        exchange.keep_alive = True
        exchange.attach(None, b"X-Router-Worker-URL: http://w\r\n")
        sink = _Sink(exchange)
        connection.send(b"head", b"", sink)
        for piece in pieces:
            if transport.closed or sink.complete:
                break
            connection.data_received(piece)
        if not sink.complete and sink.error is None:
            connection.eof_received()
        assert sink.complete or sink.error is not None, "neither complete nor failed"
        body = _read_by_client(sink, bytes(client.transport.written))
        error = None if sink.error is None else type(sink.error)
        answers.append(_Answer(sink.head, sink.complete, error, owner.kept > kept, body))
        if transport.closed:
            break
    connection.connection_lost(None)
    return answers


def check(data: bytes) -> None:
    """AssertionError for an input that shows a fault."""
    message, pieces = pieces_of(data)
    ways = [pieces, [message] if message else []]
    owners = [_Owner(), _Owner()]
    (cut,), (whole,) = map(_play, ways, owners)
    same = (cut.head, cut.complete) == (whole.head, whole.complete)
    assert same or cut.complete != whole.complete or cut.error is not None, "cuts change the head"
    if cut.complete and whole.complete:
        assert cut.body == whole.body, "cuts change the body"
    for parts, first in zip(ways, (cut, whole), strict=True):
        for owner in owners:
            (again,) = _play(parts, owner)
            assert again == first, "known is not same"
        assert all(answer == first for answer in _play(parts, _Owner(), times=3)), "used again is not same"


def _read_by_client(sink: _Sink, written: bytes) -> bytes:
    """A strict parser must read one response in it, and nothing else. Returns the body, or what there is of it."""
    if not written:
        return b""
    assert sink.head is not None
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    reader.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(written)
    response = reader.next_event()
    assert isinstance(response, h11.Response), response
    assert response.status_code == sink.head.status
    own = [value for name, value in response.headers if name == b"x-request-id"]
    assert own == [b"id"], "a header of ours is not the only one"
    body = b""
    while isinstance(event := reader.next_event(), h11.Data):
        body += event.data
    if sink.complete:
        assert isinstance(event, h11.EndOfMessage), event
        assert reader.trailing_data[0] == b"", "bytes behind the response"
    return body
