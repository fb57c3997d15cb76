"""The error event at the end of a broken stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.gateway.sse import TAIL_BYTES, error_event, is_done, is_mid_event

BODY = b'{"error": {"message": "m"}}'


def parse_events(stream: bytes) -> list[bytes]:
    """The data of each dispatched event, as the WHATWG standard reads a stream."""
    lines = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events, data = [], []
    for line in lines[:-1]:
        if not line:
            if data:
                events.append(b"\n".join(data))
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    return events


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_finished_event_needs_nothing(end):
    stream = b"data: 1" + end + end
    assert not is_mid_event(stream[-TAIL_BYTES:])
    assert error_event(BODY, stream[-TAIL_BYTES:]) == b"data: " + BODY + b"\n\n"


@pytest.mark.parametrize("tail", [b"data", b"data: 1\n", b"data: 1\r\n", b"\r", b"\n"])
def test_an_unfinished_event_is_closed_first(tail):
    assert is_mid_event(tail)
    assert error_event(BODY, tail) == b"\n\ndata: " + BODY + b"\n\n"


def test_an_empty_stream_has_no_event():
    assert not is_mid_event(b"")


@given(st.lists(st.sampled_from([b"data: 1", b"data: [x", b": ping", b"\n", b"\r\n", b"\r", b"event: e"]), max_size=12))
def test_wherever_a_stream_breaks_the_error_is_the_last_event_and_alone(pieces):
    stream = b"".join(pieces)
    events = parse_events(stream + error_event(BODY, stream[-TAIL_BYTES:]))
    assert json.loads(events[-1]) == json.loads(BODY)


@pytest.mark.parametrize("end", [b"\n", b"\n\n", b"\r\n\r\n", b"\r\r", b""])
@pytest.mark.parametrize(
    "before", [b"", b"data: 1\n\n", b'data: {"n":1234567890123456789012345678901234567890}\r\n\r\n']
)
@pytest.mark.parametrize("done", [b"data: [DONE]", b"data:[DONE]"])
def test_a_stream_that_says_that_it_is_done(before, done, end):
    assert is_done(before + done + end)


@pytest.mark.parametrize(
    "tail", [b"", b"data: 1\n\n", b"data: [DONE", b'data: "data: [DONE]"\n\n', b"data: [DONE]\n\ndata: 1\n\n"]
)
def test_a_stream_that_does_not(tail):
    assert not is_done(tail)
