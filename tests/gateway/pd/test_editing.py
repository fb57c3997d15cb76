"""A dialect's edit on an answer in pieces: one head, right framing, every byte once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialect import MAX_HELD_BYTES
from warmroute.gateway.headers import Framing, ResponseHead, read_response_head
from warmroute.gateway.pd.editing import EditedBody, EditedStream, edited
from warmroute.gateway.pd.filters import Filter

JSON = (b"Content-Type", b"application/json; charset=utf-8")
SSE = (b"content-type", b"text/event-stream")


class Doubling:
    """An edit that writes every byte twice, and holds the last byte of a stream back."""

    def whole(self, body: bytes) -> bytes:
        return bytes(byte for byte in body for _ in range(2))

    def stream(self):
        return DoublingStream()


class DoublingStream:
    def __init__(self) -> None:
        self.held = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self.held + chunk
        self.held = data[-1:]
        return Doubling().whole(data[:-1])

    def end(self) -> bytes:
        held, self.held = self.held, b""
        return Doubling().whole(held)


def head_with(*headers) -> ResponseHead:
    return read_response_head(200, b"OK", [(b"X-First", b"1"), *headers, (b"X-Last", b"2")])


def run(stage: Filter, head: ResponseHead, pieces: list[bytes]) -> tuple[ResponseHead, bytes]:
    """Feed the pieces; the head must come once, not after a byte of the body."""
    heads, body = [], b""
    for number, piece in enumerate(pieces):
        out, data = stage.received(head if not number else None, piece, number == len(pieces) - 1)
        assert out is None or not body
        heads += [out] if out is not None else []
        body += data
    (only,) = heads
    return only, body


pieces = st.lists(st.binary(max_size=5), min_size=1, max_size=8)


@given(pieces)
def test_a_body_is_edited_as_a_whole_and_its_length_told(parts):
    body = b"".join(parts)
    head, out = run(EditedBody(Doubling()), head_with(JSON, (b"CONTENT-Length", b"%d" % len(body))), parts)
    assert out == Doubling().whole(body)
    assert head.forwarded == (
        b"X-First: 1\r\nContent-Type: application/json; charset=utf-8\r\nCONTENT-Length: %d\r\nX-Last: 2\r\n" % len(out)
    )


@given(pieces)
def test_a_stream_is_edited_piece_by_piece(parts):
    head, out = run(EditedStream(DoublingStream()), head_with(SSE, (b"Transfer-Encoding", b"chunked")), parts)
    assert out == Doubling().whole(b"".join(parts))
    assert head.framing is Framing.CHUNKED


def test_a_stream_of_declared_length_loses_it():
    head, _ = run(EditedStream(DoublingStream()), head_with(SSE, (b"Content-Length", b"3")), [b"abc"])
    assert head.framing is Framing.UNTIL_CLOSE
    assert head.forwarded == b"X-First: 1\r\ncontent-type: text/event-stream\r\nX-Last: 2\r\n"


def test_what_was_held_of_a_broken_stream_can_still_be_told():
    stage = EditedStream(DoublingStream())
    assert stage.received(head_with(SSE), b"ab", False)[1] == b"aa"
    assert stage.rest() == b"bb"


def test_a_body_that_is_too_long_passes_from_then_on():
    stage = EditedBody(Doubling())
    head = head_with(JSON)
    assert stage.received(head, b"x" * MAX_HELD_BYTES, False) == (None, b"")
    assert stage.received(None, b"y", False) == (head, b"x" * MAX_HELD_BYTES + b"y")
    assert stage.received(None, b"z", False) == (None, b"z")
    assert stage.received(None, b"", True) == (None, b"")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([JSON], EditedBody),
        ([SSE], EditedStream),
        ([JSON, (b"Content-Encoding", b"identity")], EditedBody),
        ([JSON, (b"Content-Encoding", b"gzip")], type(None)),
        ([SSE, (b"CONTENT-ENCODING", b"br")], type(None)),
        ([(b"Content-Type", b"audio/wav")], type(None)),
        ([], type(None)),
    ],
)
def test_only_plain_json_and_streams_are_edited(headers, expected):
    assert type(edited(head_with(*headers), Doubling())) is expected
    assert edited(head_with(*headers), None) is None
