"""Chunks that pass the parser by make the same answer as all others, however a stream is spelt, cut or broken."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.gateway.fakes import FakeTransport

from warmroute.engines.usage import read_usage
from warmroute.gateway.chunked import (
    BEGINS,
    EVENT_END,
    LEAST_READ_BYTES,
    MOST_READ_BYTES,
    ChunkPipe,
    are_events,
    whole_chunks,
)
from warmroute.gateway.errors import ConnectionLost
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import Framing, RequestHead, ResponseHead
from warmroute.gateway.passed_answer import ANSWER_TAIL_BYTES
from warmroute.gateway.sse import TAIL_BYTES
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.telemetry.metrics import Metrics

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# What is a chunk.


@pytest.mark.parametrize("size", [*range(1, 300), 1000, 2037, 2038, 2039, 2040, 2041, 5000])
def test_a_read_that_is_one_chunk_begins_as_its_length_tells(size):
    read = chunk(b"x" * size)
    begin = BEGINS[len(read)] if len(read) <= MOST_READ_BYTES else b"\r"
    assert read.startswith(begin) == (LEAST_READ_BYTES <= len(read) <= MOST_READ_BYTES)


def test_no_read_of_a_length_that_no_chunk_has_begins_as_one():
    lengths = {len(chunk(b"x" * size)) for size in range(1, MOST_READ_BYTES)}
    others = [begin for length, begin in enumerate(BEGINS) if length not in lengths]
    assert others
    assert all(len(begin) > MOST_READ_BYTES for begin in others), "a read could begin so"


def test_a_short_chunk_is_left_out_that_could_hide_the_end_of_a_stream():
    shortest = next(length for length, begin in enumerate(BEGINS) if len(begin) < length)
    assert shortest - len(chunk(b"x" * TAIL_BYTES)) >= 0


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"", (b"", False)),
        (b"1\r\na\r\n", (b"a", False)),
        (b"1\r\na\r\n00A\r\n0123456789\r\n", (b"a0123456789", False)),
        (b"2\r\n\r\n\r\n", (b"\r\n", False)),
        (END, (b"", True)),
        (b"1\r\na\r\n000\r\n\r\n", (b"a", True)),
        (END + b"x", None),
        (b"0\r\nA: b\r\n\r\n", None),
        (b"1;x=y\r\na\r\n", None),
        (b"1 \r\na\r\n", None),
        (b"0x1\r\na\r\n", None),
        (b"+1\r\na\r\n", None),
        (b"1_0\r\n0123456789abcdef\r\n", None),
        (b"\r\n", None),
        (b"g\r\na\r\n", None),
        (b"1\na\n", None),
        (b"1\r\na\r", None),
        (b"1\r\nab\r\n", None),
        (b"2\r\na\r\n", None),
        (b"1\r\na\r\n1", None),
        (b"000000001\r\na\r\n", None),
        (b"ffffffff\r\na\r\n", None),
    ],
)
def test_whole_chunks(data, read):
    assert whole_chunks(data) == read


LONG = b"x" * 40 + b"\n\n"


@pytest.mark.parametrize(
    ("data", "are"),
    [
        (chunk(LONG), True),
        (chunk(LONG) * 3, True),
        (chunk(LONG) + chunk(b"data: [DONE]\n\n"), False),
        (chunk(LONG) + chunk(b"x" * 40), False),
        (chunk(b"x" * 40) + chunk(LONG), False),
        (chunk(LONG) + END, False),
        (chunk(LONG)[1:], False),
        (b"0" + chunk(LONG), False),
        (chunk(LONG + b"\r\n2a\r\n" + LONG), False),
        (chunk(LONG) + EVENT_END, False),
        (chunk(b"x" * 40 + b"\r\n\r\n"), False),
        (b"", True),
    ],
)
def test_events_in_chunks(data, are):
    assert are_events(data) is are


@given(
    st.lists(st.integers(30, 50).map(lambda size: b"x" * size + b"\n\n"), min_size=1, max_size=30), st.integers(0, 60)
)
def test_events_are_whole_chunks(events, cut):
    data = b"".join(map(chunk, events))
    for read in (data, data[cut:], data[:-cut]):
        assert not are_events(read) or whole_chunks(read) is not None
    if min(map(len, events)) >= LEAST_READ_BYTES:
        assert are_events(data)


def test_a_pipe_knows_the_last_two_reads():
    pipe = ChunkPipe(lambda _: None)
    assert pipe.take() == []
    one, other = LONG, b"y" * 300 + b"\n\n"
    for read in (chunk(other), chunk(one), chunk(one) + chunk(other)):
        pipe.before, pipe.last = pipe.last, read
    assert pipe.take() == [one, one + other]
    assert pipe.take() == []


# Two ways of the same stream.


class Reference:
    """What a parser makes of a stream behind a head, and nothing else."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.bodies: list[bytes] = []
        self.complete = False
        self._read: list[bytes] = []
        self.on_body = self._read.append
        parser = httptools.HttpResponseParser(self)
        parser.feed_data(HEAD)
        self.broken = False
        for piece in pieces:
            if self.complete or self.broken:
                break
            try:
                parser.feed_data(piece)
            except httptools.HttpParserError:
                self.broken = not self.complete
            if body := b"".join(self._read):
                self.bodies.append(body)
            self._read.clear()

    def on_message_complete(self) -> None:
        self.complete = True
        self.on_body = lambda _: None


class Loop:
    """A clock that stands still."""

    def time(self) -> float:
        return 0.0


class Client:
    """Records what an exchange writes."""

    write_paused = False

    def __init__(self) -> None:
        self.loop = Loop()
        self.transport = FakeTransport()


class Owner:
    """Keeps a connection, and what it has learned."""

    known = known_stream = None

    def __init__(self) -> None:
        self.free = 0

    def connection_opened(self, connection: UpstreamConnection) -> None:
        """Counted by nobody."""

    connection_ended = connection_opened

    def connection_free(self, connection: UpstreamConnection) -> None:
        self.free += 1


def connected(owner: Owner) -> UpstreamConnection:
    """A connection to a worker, on a fake transport."""
    connection = UpstreamConnection(owner, "http://w", own_cors=False)
    connection.connection_made(FakeTransport())
    return connection


def asking(connection: UpstreamConnection) -> Exchange:
    """A client's request that has been sent on the connection."""
    exchange = Exchange(Client(), RequestHead(), Metrics(), b"id")  # type: ignore[arg-type]
    exchange.keep_alive = True
    exchange.attach(connection, b"")
    connection.send(b"", b"", exchange)
    return exchange


def written(exchange: Exchange) -> bytes:
    """What its client has got."""
    return bytes(exchange.client.transport.written)


class Played:
    """One answer to a client on a connection, the worker's `pieces` being what follows its head."""

    def __init__(self, owner: Owner, connection: UpstreamConnection, reads: list[bytes]):
        transport, free = connection._transport, owner.free
        self.exchange = exchange = asking(connection)
        self.piped = 0
        for read in reads:
            if exchange.is_answered or transport.closed:
                break
            piped = 0 if exchange.pipe is None else exchange.pipe.count
            connection.data_received(read)
            self.piped += exchange.pipe is not None and exchange.pipe.count > piped
        self.broken = transport.closed and not exchange.is_answered
        if not transport.closed and not exchange.is_answered:
            connection.eof_received()  # it ends no body in chunks
        self.complete = exchange.is_answered
        self.kept = owner.free > free
        exchange.detach()
        head, _, self.raw = written(exchange).partition(b"\r\n\r\n")
        self.head = head
        self.body, self.ended = read_by_client(self.raw)


def read_by_client(raw: bytes) -> tuple[bytes, bool]:
    bodies = b""
    while raw:
        line, _, raw = raw.partition(b"\r\n")
        size = int(line, 16)
        bodies += raw[:size]
        assert raw[size : size + 2] == b"\r\n"
        raw = raw[size + 2 :]
        if not size:
            assert not raw, "bytes behind the answer"
            return bodies, True
    return bodies, False


DATA = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"data: {}\n\n", b"data: [DONE]\n\n", b"\r\n", b"0\r\n\r\n", b"a\r\n0123456789\r\n", b"x" * 300]),
    st.sampled_from(
        [b"\n\n", b"\n\n\r\n", b"z" * 40 + EVENT_END, b"z" * 40 + EVENT_END + b"28\r\n" + b"z" * 38 + b"\n\n"]
    ),
    st.tuples(st.sampled_from([34, 36, 40, 300, 2036, 2040]), st.integers(0, 2)).map(
        lambda made: b"x" * (made[0] - made[1]) + b"\n" * made[1]
    ),
)
SPELT = st.one_of(
    DATA.filter(bool).map(chunk),
    DATA.filter(bool).map(lambda data: b"%X\r\n%b\r\n" % (len(data), data)),
    DATA.filter(bool).map(lambda data: b"000%x\r\n%b\r\n" % (len(data), data)),
    DATA.filter(bool).map(lambda data: b"%x;a=b\r\n%b\r\n" % (len(data), data)),
    st.sampled_from([END, b"0\r\nA: b\r\n\r\n", b"5\r\nabc\r\n", b"1\r\nabc\r\n", b"\r\n", b"\n", b"zz\r\n", b"28"]),
    st.binary(max_size=4),
)


@given(
    st.lists(st.tuples(DATA.filter(bool).map(chunk) | SPELT, st.booleans()), max_size=12),
    st.lists(st.integers(0, 4000), max_size=6),
    st.booleans(),
)
@example([(b"1\r\nx\r\n", True), (b"\r\n", True)], [], True)
@example([(b"1\r\nx\r\n", True), (b"\r\nHTTP/1.1 200 OK\r\n", True)], [], True)
@example([(b"28\r\n", False), (b"x" * 40 + b"\r\n", False), (END, True)], [], True)
@example([(chunk(b"x" * 40), True), (b"2", True), (b"22\r\n" + b"y" * 34 + b"\r\n", True)], [], True)
def test_what_passes_the_parser_by_is_what_it_would_have_read(parts, cuts, known):
    """Parts that end a read come as servers write them; the other cuts come anywhere."""
    reads, stream = [], b"".join(part for part, _ in parts)
    ends, at = set(cuts), 0
    for part, is_end in parts:
        at += len(part)
        ends |= {at} if is_end else set()
    start = 0
    for end in sorted({end for end in ends if end < len(stream)} | {len(stream)}):
        if end > start:
            reads.append(stream[start:end])
            start = end
    owner = Owner()
    connection = connected(owner)
    if known:
        first = Played(owner, connection, [HEAD + chunk(b"data: [DONE]\n\n"), END])
        assert first.complete
        assert first.kept
        assert owner.known_stream is not None
    played = Played(owner, connection, [HEAD, *reads])
    reference = Reference(reads)
    assert played.body == b"".join(reference.bodies)
    assert (played.complete, played.ended, played.broken) == (reference.complete, reference.complete, reference.broken)
    assert played.exchange.pieces == len(reference.bodies)
    tail = played.exchange.answer_tail
    assert played.body.endswith(tail)
    assert len(tail) >= min(len(played.body), TAIL_BYTES)


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n"], ids=["LF", "CRLF"])
def test_chunks_pass_as_they_are_once_the_answer_has_begun(blank):
    owner = Owner()
    connection = connected(owner)
    events = [chunk(b"data: {%d}" % (10**40 + number) + blank) for number in range(5)]
    for _ in range(2):
        played = Played(owner, connection, [HEAD, *events, chunk(b"data: [DONE]\n\n") + END])
        assert (played.complete, played.kept) == (True, True)
        assert played.piped == 4
        assert played.raw == b"".join([*events, chunk(b"data: [DONE]\n\n"), END])
        assert played.exchange.pieces == 6


def test_nothing_passes_once_the_answer_is_given_up():
    connection = connected(Owner())
    exchange = asking(connection)
    connection.data_received(HEAD + chunk(b"x" * 40))
    exchange.detach()
    before = written(exchange)
    connection.data_received(chunk(b"y" * 40))
    assert written(exchange) == before


@pytest.mark.parametrize(("event", "gap"), [(b'data: {"a":"%b"}\n\n', b""), (b'data: {"a":"%b"}', b"\n\n")])
def test_a_stream_that_breaks_behind_chunks_ends_with_an_error_of_its_own(event, gap):
    connection = connected(Owner())
    exchange = asking(connection)
    event %= b"x" * 40
    whole = b'data: {"a":"%b"}\n\n' % (b"y" * 40)
    for read in (HEAD, chunk(whole), chunk(whole), chunk(event)):
        connection.data_received(read)
    assert exchange.pipe is not None
    assert exchange.pipe.count == (0 if gap else 2)
    connection.eof_received()
    with pytest.raises(ConnectionLost) as lost:
        exchange.raise_failure()
    exchange.fail(lost.value)
    body, ended = read_by_client(written(exchange).partition(b"\r\n\r\n")[2])
    assert ended
    assert body.startswith(whole * 2 + event + gap + b'data: {"error"')
    assert exchange.pieces == 3


def test_several_events_in_a_read_pass_as_they_are():
    connection = connected(Owner())
    exchange = asking(connection)
    events = [b"data: {%d}\n\n" % (10**40 + number) for number in range(6)]
    chunks = [chunk(event) for event in events]
    for read in (HEAD, chunks[0], chunks[1] + chunks[2], chunks[3] + chunks[4] + chunks[5]):
        connection.data_received(read)
    assert exchange.pipe is not None
    assert exchange.pipe.count == 2
    connection.data_received(chunk(b"data: [DONE]\n\n") + END)
    assert exchange.is_answered
    assert written(exchange).partition(b"\r\n\r\n")[2] == b"".join([*chunks, chunk(b"data: [DONE]\n\n"), END])
    assert exchange.answer_tail == b"".join([*events, b"data: [DONE]\n\n"])


def test_more_events_in_a_read_than_are_looked_at_are_parsed():
    connection = connected(Owner())
    exchange = asking(connection)
    many = chunk(b"data: {%d}\n\n" % 10**40) * (MOST_READ_BYTES // 50)
    for read in (HEAD, chunk(LONG), many):
        connection.data_received(read)
    assert exchange.pipe is not None
    assert exchange.pipe.count == 0
    assert exchange.pieces == 2


USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":70,"prompt_tokens_details":{"cached_tokens":64},'
    b'"completion_tokens":5,"note":"%b"}}\n\n' % (b"n" * 300)
)


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 9, 60])
@pytest.mark.parametrize("are_chunks", [True, False], ids=["chunks of their own", "parts of one chunk"])
@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b"event: message_stop\ndata: {%b}\n\n" % (b"d" * 40)])
def test_usage_is_seen_in_however_many_reads_it_comes(pieces, are_chunks, done):
    connection = connected(Owner())
    exchange = asking(connection)
    exchange.kind = "other"
    size = -(-len(USAGE) // pieces)
    parts = [USAGE[at : at + size] for at in range(0, len(USAGE), size)]
    if are_chunks:
        reads = [chunk(part) for part in parts]
    else:
        parts[0] = b"%x\r\n%b" % (len(USAGE), parts[0])
        reads = [*parts, b"\r\n"]
    for read in (HEAD, *[chunk(LONG)] * 200, *reads, chunk(done), END):
        connection.data_received(read)
    assert exchange.is_answered
    usage = read_usage(exchange.answer_tail)
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens) == (70, 64)


@given(st.lists(st.integers(1, 6000), max_size=30))
def test_the_tail_of_an_answer_in_any_pieces_is_its_last_bytes(sizes):
    exchange = asking(connected(Owner()))
    head = ResponseHead(200, b"OK", b"", Framing.LENGTH, False)
    body = b"".join(b"%c" % (65 + number % 26) * size for number, size in enumerate(sizes))
    at = 0
    for size in sizes:
        exchange.response_received(head if not at else None, body[at : at + size], False)
        at += size
    assert exchange.answer_tail == body[-ANSWER_TAIL_BYTES:]
