"""A head is known again only if it differs from the one that was parsed in nothing but the digits of its length."""

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warmroute.gateway.headers import Framing, ResponseHead
from warmroute.gateway.known_head import KnownHead, KnownStream

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\nX-A: 1\r\n\r\n"


def known(length: bytes = b"12") -> KnownHead:
    head = KnownHead.of(HEAD % length + b"{}")
    assert head is not None
    return head


@pytest.mark.parametrize("digits", [b"0", b"7", b"12", b"123456789012"])
def test_another_number_is_the_same_head(digits):
    head = known()
    data = HEAD % digits + b"body"
    assert data[head.body_start(data) :] == b"body"
    assert head.length == int(digits)


@pytest.mark.parametrize(
    "digits", [b"", b" 1", b"1 ", b"+1", b"-1", b"1_0", b"0x1", b"1,1", "\u0661".encode(), b"1" * 13]
)
def test_what_is_no_plain_number_is_not_known(digits):
    assert known().body_start(HEAD % digits + b"body") == -1


def test_any_other_difference_is_not_known():
    head, same = known(), HEAD % b"12"
    for at in range(len(same)):
        changed = bytearray(same)
        changed[at] ^= 0x20
        assert head.body_start(bytes(changed)) == -1, bytes(changed)
        assert head.body_start(same[:at]) == -1


def test_a_name_in_another_case_is_found():
    assert KnownHead.of(b"HTTP/1.1 200 OK\r\ncontent-LENGTH:\t5 \r\n\r\nabcde") is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\n\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nX-Content-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
    ],
)
def test_what_has_no_single_length_is_not_learned(data):
    assert KnownHead.of(data) is None


class Reader:
    """What the parser makes of a request."""

    def __init__(self, data: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.complete = False
        try:
            httptools.HttpRequestParser(self).feed_data(data)
            self.error = ""
        except httptools.HttpParserError as error:
            self.error = str(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


@given(st.text("0123456789 \t+x_\r\n", max_size=6), st.binary(max_size=30))
@example("007", b"0123456")
def test_the_parser_agrees(number, body):
    head, data = known(), HEAD % number.encode() + body
    start = head.body_start(data)
    if start < 0:
        return
    read = Reader(data[: start + head.length])
    assert not read.error
    assert dict(read.headers)[b"Content-Length"] == number.encode()
    assert read.body == body[: head.length]
    assert read.complete == (len(body) >= head.length)


def test_a_stream_behind_empty_lines_is_not_learned():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    fields = ResponseHead(200, b"OK", b"", Framing.CHUNKED, False)
    learned = KnownStream.of(head + b"3\r\nabc\r\n", fields)
    assert learned is not None
    assert learned.head == head
    assert KnownStream.of(b"\r\n\r\n" + head, fields) is None
