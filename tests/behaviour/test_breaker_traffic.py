"""What requests meet when one of several workers fails them all, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.support.http_client import ask, post
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import (
    SSE_HEAD,
    Connection,
    Request,
    ScriptedWorker,
    answering,
    chunk,
    response,
    then_closing,
    then_resetting,
)

from warmroute.app import Router

GOOD = answering(response(b"good"))
BROKEN_STREAM = then_closing(SSE_HEAD + chunk(b'data: {"n": 1}\n\n'))


def states(router: Router) -> list[str]:
    return [member.breaker.state.value for member in router.fleet.members]


def settings(*urls: str):
    return config(*urls, scheduler={"policy": "round_robin"}, breaker_failures=3, breaker_open=1.0)


@pytest.mark.parametrize(
    "failing",
    [
        answering(response(b"no", status=b"500 Internal Server Error")),
        then_resetting(),
        then_closing(b""),
        BROKEN_STREAM,
    ],
)
async def test_a_worker_that_fails_requests_is_left_out_until_it_serves_one(failing):
    async with ScriptedWorker() as bad, ScriptedWorker(GOOD) as good:
        bad.script = failing
        async with running(settings(bad.url, good.url)) as router:
            for _ in range(8):
                await ask(router.port, post())
                if states(router)[0] == "open":
                    break
            assert states(router) == ["open", "closed"]
            seen = len(bad.requests)
            assert seen == 3
            answers = [await ask(router.port, post()) for _ in range(4)]
            assert [answer.body for answer in answers] == [b"good"] * 4
            assert len(bad.requests) == seen
            bad.script = GOOD
            await eventually(lambda: states(router)[0] == "half_open", "it may be tried", 5)
            for _ in range(4):
                assert (await ask(router.port, post())).body == b"good"
            assert states(router) == ["closed", "closed"]
            assert len(bad.requests) > seen


@pytest.mark.parametrize(
    "status", [b"400 Bad Request", b"404 Not Found", b"422 Unprocessable", b"429 Too Many Requests"]
)
async def test_bad_requests_never_make_a_worker_unroutable(status):
    async with ScriptedWorker() as worker, ScriptedWorker(GOOD) as good:
        worker.script = answering(response(b"no", status=status))
        async with running(settings(worker.url, good.url)) as router:
            for _ in range(20):
                await ask(router.port, post())
            assert states(router) == ["closed", "closed"]
            assert len(router.fleet.pool("mixed", None).candidates) == 2


async def test_poisonous_requests_do_not_close_the_fleet_for_the_others():
    async def dies_of_poison(request: Request, connection: Connection) -> None:
        if b"poison" in request.body:
            await connection.reset()
        else:
            await connection.send(response(b"good"))

    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker()) for _ in range(4)]
        for worker in workers:
            worker.script = dies_of_poison
        router = await stack.enter_async_context(running(settings(*(worker.url for worker in workers))))
        poison = post(body=b'{"model":"m","messages":[{"role":"user","content":"poison"}]}')
        for _ in range(20):
            _, *answers = await asyncio.gather(ask(router.port, poison), *(ask(router.port, post()) for _ in range(4)))
            assert [answer.body for answer in answers] == [b"good"] * 4
            assert len(router.fleet.pool("mixed", None).candidates) >= 2
