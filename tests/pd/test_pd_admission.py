"""Pairs for which there is no place wait until there is one on both sides."""

import asyncio

import pytest
from tests.support.http_client import Client
from tests.support.pd import DIALECTS, PREFILL_ANSWER, chat, pairs_over
from tests.support.router import eventually
from tests.support.scripted_worker import Connection, Request, response


async def ask(port: int) -> int:
    async with await Client.connect(port) as client:
        return (await client.ask(chat())).status


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_waits_until_both_sides_have_a_place(dialect: str) -> None:
    go_on = asyncio.Event()
    now = most = 0

    async def decode(_request: Request, connection: Connection) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await go_on.wait()
        now -= 1
        await connection.send(response())

    async with pairs_over(dialect, prefill=3, max_inflight_per_worker=1) as pairs:
        pairs.decode.then = decode
        metrics = pairs.router.metrics
        answers = [asyncio.create_task(ask(pairs.router.port)) for _ in range(4)]
        await eventually(lambda: metrics.queue_length == 3 and now == 1, "three wait for the decode worker", 5)
        assert len(pairs.prefill.seen) == 1
        go_on.set()
        assert await asyncio.gather(*answers) == [200] * 4
        assert most == 1
        assert metrics.queue_length == 0


async def test_a_prefill_worker_without_a_place_is_waited_for_too() -> None:
    go_on = asyncio.Event()

    async def prefill(_request: Request, connection: Connection) -> None:
        await go_on.wait()
        await connection.send(PREFILL_ANSWER)

    async with pairs_over("vllm", decode=3, max_inflight_per_worker=1) as pairs:
        pairs.prefill.then = prefill
        metrics = pairs.router.metrics
        answers = [asyncio.create_task(ask(pairs.router.port)) for _ in range(3)]
        await eventually(lambda: metrics.queue_length == 2 and len(pairs.prefill.seen) == 1, "two wait", 5)
        go_on.set()
        assert await asyncio.gather(*answers) == [200] * 3
        assert not metrics.decode_alone
