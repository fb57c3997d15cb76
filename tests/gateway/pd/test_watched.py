"""An answer in doubt is held, whole and unchanged, until it shows what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialect import MAX_HELD_BYTES, EarlyError, Request, Sight
from warmroute.gateway.headers import ResponseHead, read_response_head
from warmroute.gateway.pd.watched import WatchedAnswer, watched

AGAIN = Request(b"{}", "chat", False, "id", 1)


class Asking:
    """Asks for another pair at the first "?" of a stream, or anywhere in a body; "!" tells it is one, "#" an error."""

    def __init__(self) -> None:
        self.sight: Sight = "hold"

    def whole(self, status: int, body: bytes) -> Request | None:
        return AGAIN if b"?" in body else None

    def stream(self):
        return self

    def feed(self, chunk: bytes) -> Sight:
        signs = {b"?": AGAIN, b"!": "pass", b"#": EarlyError(503)}
        for at in range(len(chunk)):
            if self.sight == "hold":
                self.sight = signs.get(chunk[at : at + 1], "hold")
        return self.sight


def head_with(content_type: bytes, *more) -> ResponseHead:
    return read_response_head(200, b"OK", [(b"Content-Type", content_type), *more])


JSON, SSE = head_with(b"application/json"), head_with(b"text/event-stream")
GZIP = (b"Content-Encoding", b"gzip")
pieces = st.lists(st.sampled_from([b"", b"a", b"b!", b"?", b"c#"]), min_size=1, max_size=6)


@pytest.mark.parametrize("head", [JSON, SSE])
@given(parts=pieces)
def test_all_or_nothing(head, parts):
    answer = watched(head, Asking(), None)
    for number, part in enumerate(parts):
        complete = number == len(parts) - 1
        out = answer.received(part, complete)
        if answer.sight != "hold":
            break
        assert out == b""
        assert not complete
    seen = b"".join(parts[: number + 1])
    if answer.sight == AGAIN:
        assert (out, b"?" in seen) == (b"", True)
    else:
        assert out == seen
        assert answer.sight == ("pass" if head is JSON or b"#" not in seen else EarlyError(503))


def test_a_stream_passes_as_soon_as_it_says_something():
    answer = watched(SSE, None, Asking)
    assert (answer.received(b"a", False), answer.sight) == (b"", "hold")
    assert (answer.received(b"!", False), answer.sight) == (b"a!", "pass")


def test_a_body_too_long_to_be_held_passes():
    answer = watched(JSON, Asking(), None)
    long = b"x" * (MAX_HELD_BYTES + 1)
    assert (answer.received(long, False), answer.sight) == (long, "pass")


@pytest.mark.parametrize(
    "head", [head_with(b"audio/wav"), head_with(b"application/json", GZIP), head_with(b"text/event-stream", GZIP)]
)
def test_what_cannot_be_read_is_not_held(head):
    assert watched(head, Asking(), Asking) is None


@pytest.mark.parametrize(("head", "watch"), [(SSE, None), (JSON, Asking)])
def test_what_nobody_watches_is_not_held(head, watch):
    assert watched(head, None, watch) is None


def test_a_reschedule_comes_before_another_watch():
    answer = WatchedAnswer(SSE, Asking(), Asking())
    answer.received(b"?", False)
    assert answer.sight == AGAIN
