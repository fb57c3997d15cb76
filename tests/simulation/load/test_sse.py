"""Reading answer streams, cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulation.load.sse import StreamReader


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(**fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": fields}])


ROLE = delta(role="assistant", content="")
USAGE = event(choices=[], usage={"completion_tokens": 2})
DONE = b"data: [DONE]\n\n"
STREAM = ROLE + delta(content="He") + delta(content="llo") + USAGE + DONE


def read(*chunks: bytes, keep_text: bool = True) -> StreamReader:
    reader = StreamReader(keep_text=keep_text)
    for chunk in chunks:
        reader.feed(chunk)
    return reader


@given(st.lists(st.integers(0, len(STREAM)), max_size=8), st.booleans())
def test_it_does_not_matter_where_a_stream_is_cut(cuts, keep_text):
    ends = [*sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    reader = read(*chunks, keep_text=keep_text)
    assert (reader.done, reader.failed, reader.started) == (True, False, True)
    assert reader.usage == {"completion_tokens": 2}
    if keep_text:
        assert reader.text == "Hello"


def test_the_role_is_not_a_token():
    assert not read(ROLE).started
    assert read(ROLE, delta(content="x")).started


@pytest.mark.parametrize("fields", [{"tool_calls": [{"index": 0}]}, {"reasoning_content": "hm"}])
def test_tokens_that_are_not_text_are_tokens(fields):
    assert read(delta(**fields)).started


def test_completions_are_read_too():
    assert read(event(choices=[{"index": 0, "text": "abc"}])).text == "abc"


@pytest.mark.parametrize(
    "bad",
    [
        event(error={"message": "no", "code": 500}),
        b"event: error\n" + event(message="no"),
        b"data: {broken\n\n",
        b"data: 7\n\n",
    ],
)
@pytest.mark.parametrize("keep_text", [True, False])
def test_an_error_in_the_stream_is_seen(bad, keep_text):
    assert read(bad, DONE, keep_text=keep_text).failed
    if b"error" in bad:
        assert read(ROLE, delta(content="x"), bad, keep_text=keep_text).failed


def test_other_line_ends_and_comments():
    reader = read(b": ping\r\n\r\ndata:" + delta(content="x")[5:].replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n")
    assert (reader.text, reader.done, reader.failed) == ("x", True, False)
