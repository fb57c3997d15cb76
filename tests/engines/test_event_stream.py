from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engines import event_stream
from warmroute.engines.event_stream import EventSplitter, EventStreamEdit, data_span

LIMIT = 24


def shout(data: bytes) -> bytes:
    return data.replace(b"quiet", b"LOUD!!")


def edited(chunks: Iterable[bytes]) -> bytes:
    edit = EventStreamEdit(b"quiet", shout)
    return b"".join([*map(edit.feed, chunks), edit.end()])


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: quiet\n\ndata: [DONE]\n\n", b"data: LOUD!!\n\ndata: [DONE]\n\n"),
        (b"data:quiet\r\n\r\ndata:  quiet \r\n\r\n", b"data:LOUD!!\r\n\r\ndata:  LOUD!! \r\n\r\n"),
        (b"id: quiet\nevent: quiet\ndata: quiet\n\n", b"id: quiet\nevent: quiet\ndata: LOUD!!\n\n"),
        (b"data: quiet\r\rdata: quiet\r\r", b"data: LOUD!!\r\rdata: LOUD!!\r\r"),
        (b": quiet\n\n\n\n\ndata: a\n\n", b": quiet\n\n\n\n\ndata: a\n\n"),
        (b"data: quiet\ndata: quiet\n\n", b"data: quiet\ndata: quiet\n\n"),
        (b"data: quiet\r\ndata: quiet\r\n\r\n", b"data: quiet\r\ndata: quiet\r\n\r\n"),
        (b"data: quiet", b"data: quiet"),
        (b"data: quiet\n", b"data: quiet\n"),
        (b"database: quiet\n\n", b"database: quiet\n\n"),
        (b"", b""),
    ],
)
def test_only_the_data_of_whole_events_is_edited(stream: bytes, expected: bytes) -> None:
    assert edited([stream]) == expected
    assert edited(stream[place : place + 1] for place in range(len(stream))) == expected


def test_an_event_goes_on_as_soon_as_it_is_over() -> None:
    edit = EventStreamEdit(b"quiet", shout)
    assert edit.feed(b"data: a\n\ndata: qu") == b"data: a\n\n"
    assert edit.feed(b"iet\n") == b""
    assert edit.feed(b"\n") == b"data: LOUD!!\n\n"


def test_an_event_that_is_too_long_passes_as_it_comes() -> None:
    edit = EventStreamEdit(b"quiet", shout)
    long = b"data: quiet " + b"x" * event_stream.MAX_EVENT_BYTES
    assert edit.feed(long) == long
    assert edit.feed(b"quiet\n") == b"quiet"
    assert edit.feed(b"\ndata: quiet\n\n") == b"\n\ndata: LOUD!!\n\n"


EVENTS = (b"data: quiet", b"data:quiet", b"id: 7", b": note", b"data: " + b"quiet " * 5, b"x" * LIMIT, b"quiet")
ENDS = (b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\r", b"\xef\xbb\xbf", b"data: [DONE]\n\n")
fragments = st.sampled_from(EVENTS + ENDS)


@given(st.lists(fragments, max_size=12).map(b"".join), st.lists(st.integers(0, 200), max_size=8))
@settings(max_examples=500)
def test_any_cut_of_the_stream_gives_the_same(stream: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "MAX_EVENT_BYTES", LIMIT)
        assert edited(chunks) == edited([stream]) == edited(stream[i : i + 1] for i in range(len(stream)))


@given(st.lists(st.binary(max_size=6) | fragments, max_size=20))
def test_the_pieces_are_the_stream_and_what_is_held_is_bounded(chunks: list[bytes]) -> None:
    splitter = EventSplitter()
    out = b""
    fed = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "MAX_EVENT_BYTES", LIMIT)
        for chunk in chunks:
            out += b"".join(piece.data for piece in splitter.feed(chunk))
            fed += len(chunk)
            assert fed - len(out) <= LIMIT + 2
    assert out + splitter.rest() == b"".join(chunks)


def test_data_span() -> None:
    assert data_span(b"id: 1\ndata: {}") == (12, 14)
    assert data_span(b"data: 1\ndata: 2") is None
    assert data_span(b"id: 1") is None
