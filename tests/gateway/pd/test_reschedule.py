"""An answer in doubt is held, whole and unchanged, until it is known to be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialect import MAX_HELD_BYTES, Request, Sight
from warmroute.gateway.headers import ResponseHead, read_response_head
from warmroute.gateway.pd.reschedule import WatchedAnswer, watched

AGAIN = Request(b"{}", "chat", False, "id", 1)


class Asking:
    """Asks for another pair when the answer, or the begin of the stream, holds `sign`; "!" tells it is one."""

    def __init__(self, sign: bytes = b"?") -> None:
        self.sign = sign
        self.seen = b""

    def whole(self, status: int, body: bytes) -> Request | None:
        return AGAIN if self.sign in body else None

    def stream(self):
        return self

    def feed(self, chunk: bytes) -> Sight:
        self.seen += chunk
        if self.sign in self.seen:
            return "again"
        return "pass" if b"!" in self.seen else "hold"

    def next_request(self) -> Request:
        return AGAIN


def head_with(content_type: bytes, *more) -> ResponseHead:
    return read_response_head(200, b"OK", [(b"Content-Type", content_type), *more])


JSON, SSE = head_with(b"application/json"), head_with(b"text/event-stream")
pieces = st.lists(st.sampled_from([b"", b"a", b"b!", b"?"]), min_size=1, max_size=6)


@pytest.mark.parametrize("head", [JSON, SSE])
@given(parts=pieces)
def test_all_or_nothing(head, parts):
    stage = WatchedAnswer(Asking(), head)
    out, heads = b"", []
    for number, part in enumerate(parts):
        passed, body = stage.received(head if not number else None, part, number == len(parts) - 1)
        heads += [passed] if passed is not None else []
        out += body
        if stage.next_request is not None:
            break
    if stage.next_request is not None:
        assert (out, heads) == (b"", [])
        assert b"?" in b"".join(parts)
    else:
        assert (out, heads) == (b"".join(parts), [head])
        assert stage.is_passing


def test_a_stream_passes_as_soon_as_it_says_something():
    stage = WatchedAnswer(Asking(), SSE)
    assert stage.received(SSE, b"a", False) == (None, b"")
    assert stage.received(None, b"!", False) == (SSE, b"a!")
    assert stage.received(None, b"?", False) == (None, b"?")
    assert stage.next_request is None


def test_a_body_too_long_to_be_held_passes():
    stage = WatchedAnswer(Asking(), JSON)
    long = b"x" * (MAX_HELD_BYTES + 1)
    assert stage.received(JSON, long, False) == (JSON, long)
    assert stage.received(None, b"?", True) == (None, b"?")
    assert stage.next_request is None


@pytest.mark.parametrize(
    "head",
    [
        head_with(b"audio/wav"),
        head_with(b"application/json", (b"Content-Encoding", b"gzip")),
        head_with(b"text/event-stream", (b"Content-Encoding", b"gzip")),
    ],
)
def test_what_cannot_be_read_is_not_held(head):
    assert watched(head, Asking()) is None
