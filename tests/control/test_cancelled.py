import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from warmroute.control.cancelled import AnswersWhenCancelled


async def serve(app, kind: str = "http"):
    sent = []

    async def send(message):
        sent.append(message)

    serving = asyncio.create_task(AnswersWhenCancelled(app)({"type": kind}, None, send))
    await asyncio.sleep(0)
    serving.cancel()
    await serving
    return sent


async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


async def test_a_cancelled_request_is_503():
    start, body = await serve(waiting)
    assert start["status"] == 503
    assert (b"connection", b"close") in start["headers"]
    assert body["body"] == b'{"code":503,"msg":"The router is shutting down"}'


async def test_an_answer_that_was_begun_is_left_as_it_is():
    async def beginning(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await waiting(scope, receive, send)

    assert [message["status"] for message in await serve(beginning)] == [200]


async def test_the_lifespan_is_cancelled_like_any_task():
    with pytest.raises(asyncio.CancelledError):
        await serve(waiting, "lifespan")
