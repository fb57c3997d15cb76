"""Heads that are known again on a kept connection: only those of the very message that a parser has taken."""

import asyncio

import pytest
from tests.support.http_client import COMPLETIONS, Client, post
from tests.support.scripted_worker import DONE, LAST_CHUNK, SSE_HEAD, chunk, head, response

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = post(body={"model": "m", "messages": [], "stream": True})
PAUSE = 0.05
"""Long enough for what was sent to be read on its own."""


def control(body: bytes, length: int | None = None, path: bytes = b"/nowhere") -> bytes:
    size = len(body) if length is None else length
    return b"POST %b HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n%b" % (path, size, body)


async def test_a_request_is_not_taken_for_the_one_that_one_read_brought_behind_it(router, worker):
    """A head is learned for its own request, not for an inference request that came with it."""
    async with await Client.connect(router.port) as client:
        await client.send(control(b"{}") + post())
        assert (await client.read_response()).status == 404
        assert (await client.read_response()).status == 200
        assert (await client.ask(control(b"[1]"))).status == 404
    assert len(worker.requests) == 1


async def test_the_end_of_a_body_is_not_learned_as_the_head_of_the_next_request(router, worker):
    posed = b"POST /v1/completions HTTP/1.1\r\nHost: router\r\nContent-Length: 2\r\n\r\n"
    body = b'{"model":"m","messages":[],"x":"' + posed + b'"}'
    whole = post(body=body)
    cut = whole.index(posed)
    async with await Client.connect(router.port) as client:
        await client.send(whole[:cut])
        await asyncio.sleep(PAUSE)
        await client.send(whole[cut:] + post())
        await client.read_response()
        await client.read_response()
        worker.requests.clear()
        await client.ask(posed + b"{}")
    assert [request.target for request in worker.requests] == [b"/v1/completions"]


async def test_the_rest_of_a_body_is_no_request_though_its_answer_is_there(router, worker):
    """An answer may come before the body has; what is still to come of that stays a body, whatever it looks like."""
    inner = post(COMPLETIONS)
    async with await Client.connect(router.port) as client:
        await client.ask(inner)
        worker.requests.clear()
        await client.send(control(b"", len(inner)))
        assert (await client.read_response()).status == 404
        await client.send(inner)
        await asyncio.sleep(PAUSE)
        assert worker.requests == []


async def test_the_head_of_an_error_is_not_learned_for_a_stream(router, worker):
    """What a parser was given before has nothing to do with a stream whose head it gets later."""
    wrong = head(b"400 Bad Request", [(b"Content-Type", b"application/json"), (b"Content-Length", b"2")])

    async def script(request, connection):
        number = len(worker.requests)
        if number in (1, 3):
            await connection.send(SSE_HEAD)
            await asyncio.sleep(PAUSE)
            await connection.send(chunk(b"data: 1\n\n"))
            await asyncio.sleep(PAUSE)
            await connection.send(chunk(DONE) + LAST_CHUNK)
        elif number == 2:
            await connection.send(wrong + b"{}")
        else:
            await connection.send(wrong)
            await asyncio.sleep(PAUSE)
            await connection.send(b"{}")

    worker.script = script
    async with await Client.connect(router.port) as client:
        statuses = [(await client.ask(STREAM)).status for _ in range(4)]
    assert statuses == [200, 400, 200, 400]
    assert {request.connection_number for request in worker.requests} == {worker.requests[0].connection_number}


async def test_answers_of_all_kinds_take_turns_on_one_connection(router, worker):
    bodies = [b"{}", b'{"a":1}']
    async with await Client.connect(router.port) as client:
        for status in (b"200 OK", b"429 No", b"204 Nothing", b"304 Not", b"200 OK"):
            for body in bodies:
                empty = status[:3] in (b"204", b"304")
                data = head(status, [(b"X-A", b"1")]) if empty else response(body, status)

                async def script(_request, connection, data=data):
                    await connection.send(data)

                worker.script = script
                answer = await client.ask(post())
                assert answer.status == int(status[:3])
                assert answer.body == (b"" if empty else body)
