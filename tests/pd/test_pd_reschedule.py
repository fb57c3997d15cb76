"""FastDeploy gives a request back: another pair goes on with it, as long as the client has got nothing."""

import json

import pytest
from tests.support.http_client import ask
from tests.support.pd import EVENTS, JSON_BODY, STREAM_BODY, chat, good_answer, pairs_over
from tests.support.scripted_worker import answering, response, streaming

GIVEN_BACK = b'{"choices":[{"message":{"content":"","completion_token_ids":[7,8]},"finish_reason":"pd_reschedule"}]}'
PD_ERROR = b'{"error":{"message":"PD Error: no blocks"}}'
STREAM_BEGIN = [b": ping\n\n", b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n']
STREAM_END = b'data: {"choices":[{"delta":{"completion_token_ids":[7,8]},"finish_reason":"pd_reschedule"}]}\n\n'
WAYS = {
    "a finish reason": (False, answering(response(GIVEN_BACK))),
    "an error with 200": (False, answering(response(PD_ERROR))),
    "an error with 500": (False, answering(response(PD_ERROR, b"500 Oops"))),
    "an error with 400": (False, answering(response(PD_ERROR, b"400 Bad"))),
    "a stream": (True, streaming([*STREAM_BEGIN, STREAM_END, b"data: [DONE]\n\n"])),
    "an error in a stream": (True, streaming([b"data: " + PD_ERROR + b"\n\n"])),
    "a stream that is none": (True, answering(response(PD_ERROR, b"500 Oops"))),
}


@pytest.mark.parametrize(("stream", "script"), WAYS.values(), ids=WAYS)
async def test_another_pair_gets_the_request(stream, script):
    async with pairs_over("fastdeploy", 2, 2) as pairs:
        pairs.decode.then = good_answer(stream)
        pairs.decode.first = [script]
        answer = await ask(pairs.router.port, chat(stream, request_id="mine"))
        assert (answer.status, answer.body) == (200, STREAM_BODY if stream else JSON_BODY)
        assert [body["request_id"] for body in pairs.decode.bodies] == ["mine", "mine-retry1"]
        assert [body["request_id"] for body in pairs.prefill.bodies] == ["mine", "mine-retry1"]
        assert pairs.statuses()["decode", 200] == 1


async def test_it_happens_as_often_as_allowed_then_the_client_gets_that_answer():
    async with pairs_over("fastdeploy", 1, 1, preempt_retry_count=2) as pairs:
        pairs.decode.then = answering(response(GIVEN_BACK))
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (200, GIVEN_BACK)
        assert len(pairs.decode.seen) == 3


async def test_it_can_be_switched_off():
    async with pairs_over("fastdeploy", 1, 1, preempt_retry_count=0) as pairs:
        pairs.decode.then = answering(response(GIVEN_BACK))
        assert (await ask(pairs.router.port, chat())).body == GIVEN_BACK
        assert len(pairs.decode.seen) == 1


@pytest.mark.parametrize("others", [0, 1, 2])
async def test_a_decode_worker_that_gave_back_can_be_excluded(others):
    async with pairs_over("fastdeploy", 1, 1 + others, preempt_retry_exclude_decode=True) as pairs:
        pairs.decode.then = answering(response(GIVEN_BACK))
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (200, GIVEN_BACK)
        assert len(pairs.decode.seen_by) == len({worker.url for worker in pairs.decode.seen_by}) == 1 + others


async def test_after_the_first_content_the_client_gets_it_as_it_is():
    events = [EVENTS[0], STREAM_END, b"data: [DONE]\n\n"]
    async with pairs_over("fastdeploy", 2, 2) as pairs:
        pairs.decode.then = streaming(events)
        assert (await ask(pairs.router.port, chat(stream=True))).body == b"".join(events)
        assert len(pairs.decode.seen) == 1


async def test_a_failure_after_it_is_a_failure():
    async with pairs_over("fastdeploy", 2, 2) as pairs:
        pairs.decode.first = [answering(response(GIVEN_BACK)), answering(response(b"oops", b"500 Oops"))]
        answer = await ask(pairs.router.port, chat())
        assert answer.body == JSON_BODY
        assert json.loads(pairs.decode.seen[2].body)["request_id"].endswith("-retry2")
