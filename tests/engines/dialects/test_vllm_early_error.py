"""A stream is held until it shows that the engine answers, or that it could not."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.dialects.pairs import peer, request

from warmroute.engines.dialect import EarlyError, Sight
from warmroute.engines.dialects.vllm import VLLM_NIXL
from warmroute.engines.dialects.vllm_early_error import early_error
from warmroute.engines.event_stream import MAX_WATCHED_BYTES, StreamBegin

PREFILL, DECODE = peer("10.0.0.1"), peer("10.0.0.2")
HANDED_OVER = b'{"kv_transfer_params":{"remote_engine_id":"e"}}'


def delta(**members: Any) -> bytes:
    return json.dumps({"id": "x", "choices": [{"index": 0, "delta": members, "finish_reason": None}]}).encode()


def choice(**members: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, **members}]}).encode()


def error(**members: Any) -> bytes:
    return json.dumps({"error": {"message": "Internal server error", "param": None, **members}}).encode()


def event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data


ROLE = delta(role="assistant", content="")
TEXT = delta(content="Hi")
DONE = b"[DONE]"


@pytest.mark.parametrize(
    "data",
    [
        ROLE,
        delta(),
        delta(role="assistant", content=None, reasoning="", tool_calls=[]),
        choice(text="", logprobs=None, finish_reason=None, stop_reason=None),
        b'{"choices":[{"index":0,"delta":null}],"usage":{"prompt_tokens":3}}',
    ],
)
def test_what_says_nothing_is_held(data: bytes) -> None:
    assert early_error(data) == "hold"


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        delta(reasoning="Hm"),
        delta(reasoning_content="Hm"),
        delta(tool_calls=[{"index": 0}]),
        delta(something_new=0),
        choice(delta={}, finish_reason="stop"),
        choice(text="Hi"),
        choice(text="", token_ids=[1]),
        b'{"choices":[{"delta":{}},{"delta":{"content":"Hi"}}]}',
        b'{"choices":[],"usage":{"prompt_tokens":3}}',
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"delta":"Hi"}]}',
        b'{"error":"no object"}',
        b'{"object":"error","code":500}',
        b"[]",
        DONE,
        b'{"error":{',
        b'{"error":{"code":1e999}}',
        b'{"a":"\xff"}',
        b"[" * 9999,
        b"",
    ],
)
def test_content_and_what_is_not_understood_is_passed(data: bytes) -> None:
    assert early_error(data) == "pass"


@pytest.mark.parametrize(
    ("code", "status"),
    [(500, 500), (503, 503), (400, 400), (599, 599), (399, 500), (600, 500), (200, 500)]
    + [(code, 500) for code in (None, "503", 503.0, True, [503])],
)
def test_the_code_of_an_error_is_the_status(code: object, status: int) -> None:
    assert early_error(error(code=code)) == EarlyError(status)


def test_an_error_without_a_code_is_500() -> None:
    assert early_error(b'{"error":{}}') == EarlyError(500)


def watch() -> StreamBegin:
    decode = VLLM_NIXL.begin(request(b'{"stream":true}', stream=True), PREFILL, DECODE, Random(1)).follow(HANDED_OVER)
    return decode.watch()


@pytest.mark.parametrize(
    ("events", "sights"),
    [
        ([event(ROLE), event(error(code=503)), event(DONE)], ["hold", EarlyError(503), EarlyError(503)]),
        ([b": ping\n\n", event(ROLE), event(TEXT), event(error())], ["hold", "hold", "pass", "pass"]),
        ([event(ROLE) + event(TEXT) + event(error())], ["pass"]),
        ([event(ROLE), b"event: x\n\n"], ["hold", "pass"]),
        ([event(ROLE), b"data: {\ndata: }\n\n"], ["hold", "pass"]),
        ([b": ping\n\n" * (MAX_WATCHED_BYTES // 8 + 1), event(error())], ["pass", "pass"]),
    ],
)
def test_a_stream_is_judged_by_the_first_event_that_says_something(events: list[bytes], sights: list[Sight]) -> None:
    begin = watch()
    assert [begin.feed(chunk) for chunk in events] == sights


@given(
    st.lists(st.sampled_from([event(ROLE), event(TEXT), event(error(code=503)), b": ping\r\n\r\n"]), max_size=4),
    st.lists(st.integers(1, 80), max_size=30),
)
def test_the_cuts_of_chunks_do_not_matter(events: list[bytes], sizes: list[int]) -> None:
    begin, rest = watch(), b"".join(events)
    sight = watch().feed(rest)
    for size in sizes:
        begin.feed(rest[:size])
        rest = rest[size:]
    assert begin.feed(rest) == sight


@pytest.mark.parametrize(("stream", "answer"), [(False, HANDED_OVER), (True, b"{}")])
def test_only_a_stream_that_was_handed_over_is_watched(stream: bool, answer: bytes) -> None:
    assert VLLM_NIXL.begin(request(b"{}", stream=stream), PREFILL, DECODE, Random(1)).follow(answer).watch is None
