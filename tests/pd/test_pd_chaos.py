"""Anything may happen to any leg at any time, with clients leaving: nothing is ever held, and nobody gets a mixture."""

import asyncio
from random import Random

import pytest
from tests.support.http_client import Client
from tests.support.pd import DIALECTS, EVENTS, JSON_BODY, PREFILL_ANSWER, STREAM_BODY, chat, good_answer, pairs_over
from tests.support.router import assert_nothing_held
from tests.support.scripted_worker import SSE_HEAD, answering, chunk, head, response, then_closing, then_resetting

JSON_HEAD = head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Content-Length", b"1000")])
FAULTS = [
    then_closing(b""),
    then_resetting(),
    then_resetting(b"HTTP/1.1 2"),
    then_closing(SSE_HEAD),
    then_resetting(SSE_HEAD + chunk(EVENTS[0])),
    then_resetting(JSON_HEAD + b"{"),
    answering(b"garbage\r\n\r\n"),
    answering(response(b"no", b"400 Bad")),
    answering(response(b"no", b"429 Busy")),
    answering(response(b"no", b"500 Oops")),
    answering(response(b'{"error":{"message":"PD Error"}}', b"500 Oops")),
    then_resetting(head(b"503 Busy", [(b"Content-Length", b"9")]) + b"x"),
]
STATUSES = {200, 400, 429, 500, 502, 503}


def moody(rng: Random, good):
    """A worker that fails now and then, sooner or later."""

    async def script(request, connection):
        await asyncio.sleep(rng.random() * 0.004)
        await (rng.choice(FAULTS) if rng.random() < 0.4 else good)(request, connection)

    return script


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_is_ever_held(dialect, seed):
    rng = Random(f"{dialect} {seed}")

    async def good_decode(request, connection):
        await good_answer(b'"stream": true' in request.body)(request, connection)

    async def one(number: int) -> None:
        stream = number % 2 == 0
        async with gate, await Client.connect(pairs.router.port) as client:
            for _ in range(rng.randint(1, 3)):
                await client.send(chat(stream))
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.006)
                    client.abort()
                    return
                try:
                    answer = await client.read_response()
                except (asyncio.IncompleteReadError, ConnectionError):
                    return  # broken off
                seen.add(answer.status)
                if answer.status == 200 and b"error" not in answer.body:
                    assert answer.body == (STREAM_BODY if stream else JSON_BODY)
                if answer.values(b"connection") == [b"close"] or b"error" in answer.body:
                    return

    async with pairs_over(dialect, 3, 3) as pairs:
        pairs.prefill.then = moody(rng, answering(PREFILL_ANSWER))
        pairs.decode.then = moody(rng, good_decode)
        gate, seen = asyncio.Semaphore(16), set()
        await asyncio.gather(*map(one, range(150)))
        assert 200 in seen
        assert seen <= STATUSES
        await assert_nothing_held(pairs.router)
