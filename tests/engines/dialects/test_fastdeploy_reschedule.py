import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.dialects.pairs import request

from warmroute.engines.dialect import Request, Sight
from warmroute.engines.dialects.fastdeploy_reschedule import FastDeployReschedule

CHAT = request(b'{"messages":[],"max_tokens":9}')
ERROR = {"error": {"message": "PD Error: decode ran out of blocks", "type": "internal", "code": 500}}


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, **fields}]}


def event(answer: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(answer).encode()


ROLE = event(choice(delta={"role": "assistant", "content": ""}, finish_reason=None))
TEXT = event(choice(delta={"content": "Hi"}, finish_reason=None))
GIVEN_BACK = event(choice(delta={"content": "", "completion_token_ids": [7, 8]}, finish_reason="pd_reschedule"))


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (choice(message={"content": "Hi", "completion_token_ids": [1, 2]}, finish_reason="pd_reschedule"), [1, 2]),
        (choice(text="Hi", completion_token_ids=[1, 2], finish_reason="pd_reschedule"), [1, 2]),
        (choice(message={"content": "Hi"}, finish_reason="pd_reschedule"), None),
        (choice(message={"content": "", "completion_token_ids": None}, finish_reason="pd_reschedule"), None),
        (ERROR, None),
    ],
)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_answers_that_ask_for_another_pair(answer: object, ids: list[int] | None, status: int) -> None:
    following = FastDeployReschedule(CHAT).whole(status, json.dumps(answer).encode())
    tail = b"" if ids is None else b',"completion_token_ids":[1,2]'
    assert following == Request(b'{"messages":[],"max_tokens":9%b}' % tail, "chat", False, "made-once", attempt=1)


@pytest.mark.parametrize(
    "answer",
    [
        choice(message={"content": "pd_reschedule"}, finish_reason="stop"),
        choice(message={"content": "PD Error"}, finish_reason="stop"),
        {"choices": [], "note": "pd_reschedule"},
        {"choices": {"finish_reason": "pd_reschedule"}},
        {"error": "PD Error"},
        {"error": {"message": "out of memory", "note": "PD Error"}},
        ["pd_reschedule"],
    ],
)
def test_answers_that_are_passed_on(answer: object) -> None:
    assert FastDeployReschedule(CHAT).whole(200, json.dumps(answer).encode()) is None


@pytest.mark.parametrize(
    "body", [b"", b"pd_reschedule", b'{"finish_reason":"pd_reschedule"', b"[" * 9999 + b"PD Error"]
)
def test_what_is_not_understood_is_passed_on(body: bytes) -> None:
    assert FastDeployReschedule(CHAT).whole(200, body) is None


def test_tokens_of_several_attempts_add_up() -> None:
    answer = json.dumps(choice(message={"completion_token_ids": [3]}, finish_reason="pd_reschedule")).encode()
    current: Request | None = request(b'{"a":1}')
    for _ in range(3):
        assert current is not None
        current = FastDeployReschedule(current).whole(200, answer)
    assert current == Request(b'{"a":1,"completion_token_ids":[3,3,3]}', "chat", False, "made-once", attempt=3)


def test_tokens_of_several_choices_cannot_go_on() -> None:
    one = {"message": {"completion_token_ids": [3]}, "finish_reason": "pd_reschedule"}
    following = FastDeployReschedule(CHAT).whole(200, json.dumps({"choices": [one, one]}).encode())
    assert following == CHAT.again()


def watched(chunks: Iterable[bytes]) -> list[Sight]:
    watch = FastDeployReschedule(CHAT).stream()
    return [watch.feed(chunk) for chunk in chunks]


AGAIN = Request(b'{"messages":[],"max_tokens":9,"completion_token_ids":[7,8]}', "chat", False, "made-once", attempt=1)


@pytest.mark.parametrize(
    ("events", "sights"),
    [
        ([ROLE, TEXT, GIVEN_BACK], ["hold", "pass", "pass"]),
        ([ROLE, GIVEN_BACK], ["hold", AGAIN]),
        ([GIVEN_BACK, TEXT], [AGAIN, AGAIN]),
        ([event(ERROR)], [CHAT.again()]),
        ([ROLE, event({"error": {"message": "else"}})], ["hold", "pass"]),
        ([b": ping\n\n", event(choice(text="")), event(choice(text="Hi"))], ["hold", "hold", "pass"]),
        ([event(choice(delta={"reasoning_content": "Hm"}))], ["pass"]),
        ([event(choice(delta={"tool_calls": [{}]}))], ["pass"]),
        ([event(choice(delta={}, finish_reason="stop"))], ["pass"]),
        ([b"data: [DONE]\n\n"], ["pass"]),
        ([b"event: x\n\n"], ["pass"]),
        ([b"data: {}", b"\n", b"\n"], ["hold", "hold", "hold"]),
        ([b"x" * 40_000, b"x" * 40_000], ["hold", "pass"]),
    ],
)
def test_streams_are_held_up_to_their_first_content(events: list[bytes], sights: list[Sight]) -> None:
    assert watched(events) == sights


def test_a_stream_goes_on_after_the_tokens_that_it_told() -> None:
    silent = event(choice(delta={"content": "", "completion_token_ids": [6]}))
    *_, sight = watched([ROLE, silent, GIVEN_BACK])
    body = b'{"messages":[],"max_tokens":9,"completion_token_ids":[6,7,8]}'
    assert sight == Request(body, "chat", False, "made-once", attempt=1)


@given(
    st.lists(st.sampled_from([ROLE, TEXT, GIVEN_BACK, b": ping\n\n", b"data: [DONE]\n\n"]), max_size=4).map(b"".join),
    st.lists(st.integers(1, 60), max_size=30),
)
def test_the_cuts_of_chunks_do_not_matter(stream: bytes, sizes: list[int]) -> None:
    chunks, rest = [], stream
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]
    assert watched([*chunks, rest])[-1] == watched([stream])[-1]
