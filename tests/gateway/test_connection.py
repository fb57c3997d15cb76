"""One upstream connection, byte by byte: what the sink hears, and what becomes of the connection."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.gateway.fakes import FakeTransport

from warmroute.gateway.errors import BadResponse, ConnectionLost, UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.upstream.connection import UpstreamConnection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nhello"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"


class Recorder:
    """A sink and an owner; it checks that nothing comes after the end."""

    known = None
    known_stream = None
    is_holding = False
    drops_good = False
    pipe = None

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.body = b""
        self.calls = 0
        self.complete = False
        self.error: UpstreamError | None = None
        self.free = 0
        self.opened = 0
        self.ended = 0

    def response_received(self, head, body, complete):
        assert not self.complete
        assert self.error is None
        if head is not None:
            assert self.head is None
            self.head = head
        assert self.head is not None
        self.body += body
        self.calls += 1
        self.complete = complete

    def response_failed(self, error):
        assert not self.complete
        assert self.error is None
        self.error = error

    def connection_opened(self, connection):
        self.opened += 1

    def connection_free(self, connection):
        self.free += 1

    def connection_ended(self, connection):
        self.ended += 1


def connected() -> tuple[UpstreamConnection, FakeTransport, Recorder]:
    recorder, transport = Recorder(), FakeTransport()
    connection = UpstreamConnection(recorder, "http://w", own_cors=False)
    connection.connection_made(transport)
    connection.send(b"head", b"body", recorder)
    return connection, transport, recorder


def feed(connection: UpstreamConnection, transport: FakeTransport, data: bytes, cuts: list[int]) -> None:
    """Deliver `data` in the pieces that `cuts` makes of it, for as long as the connection is open."""
    start = 0
    for end in [*sorted(cuts), len(data)]:
        if end > start and not transport.closed:
            connection.data_received(data[start:end])
            start = end


@pytest.mark.parametrize("response", [OK, CHUNKED, UNTIL_CLOSE, INTERIM + OK, INTERIM + CHUNKED])
@pytest.mark.parametrize("step", [1, 1000])
def test_a_response_whole_and_byte_by_byte(response, step):
    connection, transport, heard = connected()
    feed(connection, transport, response, list(range(0, len(response), step)))
    if response is UNTIL_CLOSE:
        assert not heard.complete
        connection.eof_received()
    assert (heard.complete, heard.body, heard.error) == (True, b"hello", None)
    assert heard.head is not None
    assert (heard.head.status, heard.head.reason) == (200, b"OK")
    assert heard.free == (response is not UNTIL_CLOSE)
    assert transport.closed == (response is UNTIL_CLOSE)


def test_what_one_read_brings_is_one_call():
    connection, _, heard = connected()
    connection.data_received(INTERIM + CHUNKED)
    assert (heard.calls, heard.body) == (1, b"hello")


def test_a_connection_carries_one_response_after_the_other():
    connection, transport, _ = connected()
    connection.data_received(OK)
    second = Recorder()
    connection.send(b"again", b"", second)
    connection.data_received(INTERIM + CHUNKED)
    assert (second.complete, second.body, transport.closed) == (True, b"hello", False)
    assert transport.written == b"headbodyagain"


@pytest.mark.parametrize("surplus", [b"x", OK, b"\0"])
@pytest.mark.parametrize("response", [OK, CHUNKED])
def test_surplus_bytes_end_the_connection_but_not_the_response(response, surplus):
    connection, transport, heard = connected()
    connection.data_received(response + surplus)
    assert (heard.complete, heard.body, heard.error) == (True, b"hello", None)
    assert transport.closed
    assert not heard.free


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 099 X\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 000 X\r\n\r\nhello",
        b"HTTP/1.1 150 X\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 199 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_no_interim_response_has_a_body(response, step):
    """What came before the head would reach the client as bytes of an answer that nobody has checked."""
    connection, transport, heard = connected()
    feed(connection, transport, response + OK, list(range(0, len(response), step)))
    assert isinstance(heard.error, BadResponse)
    assert (heard.head, heard.body, transport.closed) == (None, b"", True)


def test_an_empty_body_of_an_interim_response_is_none():
    connection, _, heard = connected()
    connection.data_received(b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + OK)
    assert (heard.complete, heard.body, heard.free) == (True, b"hello", 1)


@pytest.mark.parametrize("late", [b"x", OK])
def test_bytes_that_come_while_idle_end_the_connection(late):
    connection, transport, heard = connected()
    connection.data_received(OK)
    connection.data_received(late)
    assert transport.closed
    connection.connection_lost(None)
    assert (heard.calls, heard.ended) == (1, 1)


def test_an_answer_before_the_whole_request_is_sent_ends_the_connection():
    connection, transport, heard = connected()
    transport.unsent = 1
    connection.data_received(OK)
    assert (heard.complete, heard.free, transport.closed) == (True, 0, True)


@pytest.mark.parametrize("part", [b"", b"H", INTERIM, OK[:-1], CHUNKED[:-3], CHUNKED[:-1]])
@pytest.mark.parametrize("cause", [None, ConnectionResetError("reset")])
def test_a_connection_that_ends_early(part, cause):
    connection, transport, heard = connected()
    feed(connection, transport, part, [])
    connection.connection_lost(cause)
    assert isinstance(heard.error, ConnectionLost)
    assert heard.error.response_seen == bool(part)
    assert heard.error.worker_url == "http://w"


def test_a_body_without_a_declared_end_breaks_with_a_reset():
    connection, _, heard = connected()
    connection.data_received(UNTIL_CLOSE)
    connection.connection_lost(ConnectionResetError())
    assert isinstance(heard.error, ConnectionLost)


def test_a_connection_that_has_ended_takes_no_request():
    connection, _, heard = connected()
    connection.data_received(OK)
    connection.connection_lost(None)
    with pytest.raises(ConnectionLost) as error:
        connection.send(b"again", b"", heard)
    assert not error.value.response_seen


def test_an_aborted_exchange_is_not_told():
    connection, transport, heard = connected()
    connection.data_received(OK[:-1])
    connection.abort()
    connection.connection_lost(None)
    assert (transport.closed, heard.complete, heard.error, heard.ended) == (True, False, None, 1)


responses = st.sampled_from([OK, CHUNKED, UNTIL_CLOSE, INTERIM + OK, CHUNKED + OK])
edits = st.lists(st.tuples(st.integers(0, 150), st.binary(max_size=3), st.integers(0, 4)), max_size=3)


@given(responses, edits, st.lists(st.integers(0, 200), max_size=5))
@example(CHUNKED, [(35, b"", 2)], [])
@example(OK, [(0, b"GARBAGE", 0)], [])
def test_damaged_and_cut_responses_end_in_one_way(response, edits, cuts):
    """Complete or failed, once; how the bytes were cut makes no difference."""
    data = response
    for position, inserted, deleted in edits:
        data = data[:position] + inserted + data[position + deleted :]
    outcomes = []
    for cut in (cuts, []):
        connection, transport, heard = connected()
        feed(connection, transport, data, cut)
        connection.connection_lost(None)
        assert heard.complete != (heard.error is not None)
        assert heard.error is None or isinstance(heard.error, BadResponse | ConnectionLost)
        assert heard.ended == 1
        outcomes.append((heard.complete, heard.body, heard.head.status if heard.head else None))
    assert outcomes[0] == outcomes[1]


SAME = [b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size for size in (0, 5, 1234)]
RESPONSES = [
    *SAME,
    OK,
    CHUNKED,
    INTERIM + OK,
    b"HTTP/1.1 503 Full\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 103 Early\r\nContent-Length: 0\r\n\r\n" + OK,
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    OK + b"surplus",
    SAME[1] + b"surplus",
    SAME[1] + b"\r\n",
    SAME[1][:-1],
    b"nonsense",
]


@given(st.lists(st.sampled_from(RESPONSES), min_size=2, max_size=6), st.lists(st.integers(0, 1300), max_size=4))
def test_a_head_that_is_known_again_changes_nothing(responses, cuts):
    """What every sink hears is what it would have heard on a connection of its own."""
    connection, transport, heard = connected()
    for response in responses:
        alone, own_transport, heard_alone = connected()
        for one, its_transport in ((connection, transport), (alone, own_transport)):
            feed(one, its_transport, response, cuts)
            if not its_transport.closed and not (heard if one is connection else heard_alone).complete:
                one.eof_received()
        assert (heard.head, heard.body, heard.complete) == (heard_alone.head, heard_alone.body, heard_alone.complete)
        assert str(heard.error) == str(heard_alone.error)
        assert transport.closed == own_transport.closed
        if transport.closed:
            return
        heard = Recorder()
        connection.send(b"head", b"", heard)


def test_line_ends_behind_an_answer_are_nothing_whether_its_head_was_known_or_not():
    connection, transport, heard = connected()
    for _ in range(2):
        connection.data_received(SAME[1][:-2])
        connection.data_received(SAME[1][-2:] + b"\r\n")
        assert (heard.complete, heard.body, transport.closed) == (True, b"xxxxx", False)
        heard = Recorder()
        connection.send(b"head", b"", heard)


def test_a_head_is_known_again_on_another_connection_of_the_worker():
    connection, _, owner = connected()
    connection.data_received(SAME[1])
    assert owner.known is not None
    start = owner.known.head.body_start(SAME[2])
    assert (start, owner.known.head.length) == (len(SAME[2]) - 1234, 1234)
    assert owner.known.fields().forwarded == b"Server: a\r\nContent-Length: 1234\r\n"


def test_whoever_drops_good_answers_gets_the_body_and_the_status_all_the_same():
    connection, _, _ = connected()
    connection.data_received(SAME[1])
    drain = Recorder()
    drain.drops_good = True
    connection.send(b"head", b"", drain)
    connection.data_received(SAME[2])
    assert drain.head is not None
    assert (drain.head.status, drain.body, drain.complete) == (200, b"x" * 1234, True)


def test_nothing_is_sent_on_a_connection_that_is_ending():
    connection, transport, _ = connected()
    connection.data_received(SAME[1])
    transport.closed = True
    with pytest.raises(ConnectionLost):
        connection.send(b"head", b"", Recorder())


@pytest.mark.parametrize("response", [CHUNKED, RESPONSES[6], RESPONSES[8], UNTIL_CLOSE])
def test_only_good_answers_with_a_length_are_learned(response):
    connection, _, owner = connected()
    connection.data_received(response)
    assert owner.known is None
