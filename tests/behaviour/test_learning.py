"""Answers that tell what was cached are counted and never altered; others teach nothing."""

import json

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, ask, post
from tests.support.router import eventually
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, answering, chunk, response, streaming

pytestmark = pytest.mark.asyncio(loop_scope="module")

USAGE = {"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 512}}
DONE = b"data: [DONE]\n\n"
STREAM = post(COMPLETIONS, {"model": "m", "prompt": "p" * 4000, "stream": True})


def event(data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def reported(router):
    metrics = router.metrics
    return metrics.reported_prompt_tokens, metrics.reported_cached_tokens


async def learns(router, request, expected):
    """Send the request; within a moment the metrics show what its answer taught."""
    before = reported(router)
    answer = await ask(router.port, request)
    prompt, cached = expected
    await eventually(lambda: reported(router) == (before[0] + prompt, before[1] + cached), "the answer is counted")
    return answer


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/responses"])
async def test_a_whole_answer(router, worker, path):
    body = json.dumps({"choices": [{"text": "x" * 9000}], "usage": USAGE}).encode()
    worker.script = answering(response(body))
    answer = await learns(router, post(path, {"model": "m", "prompt": "q", "messages": []}), (1000, 512))
    assert answer.body == body


@pytest.mark.parametrize("events", [(event({"usage": USAGE}), DONE), (event({"usage": USAGE}) + DONE,)])
async def test_a_stream(router, worker, events):
    worker.script = streaming([event({"choices": [{"text": "x" * 500}]})] * 9 + list(events))
    answer = await learns(router, STREAM, (1000, 512))
    assert answer.body.endswith(b"".join(events))


async def test_a_stream_in_tiny_pieces(router, worker):
    stream = event({"choices": []}) + event({"usage": USAGE}) + DONE

    async def script(_request, connection):
        await connection.send(SSE_HEAD)
        for start in range(0, len(stream), 3):
            await connection.send(chunk(stream[start : start + 3]))
        await connection.send(LAST_CHUNK)

    worker.script = script
    answer = await learns(router, STREAM, (1000, 512))
    assert answer.body == stream


async def test_answers_that_teach_nothing(router, worker):
    without = {"prompt_tokens": 1000, "completion_tokens": 1}
    for script in (
        streaming([event({"choices": [{"text": "x"}]}), DONE]),
        answering(response(json.dumps({"usage": without}).encode())),
        answering(response(json.dumps({"choices": [{"text": json.dumps({"usage": USAGE})}]}).encode())),
        answering(response(json.dumps({"usage": USAGE}).encode(), b"400 Bad Request")),
        answering(response(json.dumps({"usage": USAGE, "choices": "x" * 5000}).encode())),
    ):
        worker.script = script
        await learns(router, STREAM, (0, 0))


async def test_usage_is_never_asked_for(router, worker):
    """A client that did not ask for usage would get an event that it does not expect."""
    worker.script = streaming([event({"choices": [{"text": "x"}]}), DONE])
    await ask(router.port, STREAM)
    assert worker.requests[-1].body == STREAM.partition(b"\r\n\r\n")[2]
