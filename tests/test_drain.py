"""The end of a router: unready, still listening, then only what runs, then nobody."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from tests.support.http_client import Client, post
from tests.support.router import assert_nothing_held, config, eventually
from tests.support.scripted_worker import SSE_HEAD, ScriptedWorker, chunk

from warmroute.app import Router

FIRST = b'data: {"n": 1}\n\n'
STREAM = post(body=b'{"stream": true}')


class Held:
    """A worker that begins every stream and ends it when it may."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def script(self, _request, connection) -> None:
        await connection.send(SSE_HEAD + chunk(FIRST))
        await self.may_end.wait()
        await connection.send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


@asynccontextmanager
async def draining_router(held: Held, **server):
    async with ScriptedWorker() as worker:
        worker.script = held.script
        router = Router(config(worker.url, server=server), seed=1)
        await router.start()
        try:
            await eventually(lambda: router.fleet.pool("mixed", None).candidates, "the worker is routable", 5)
            yield router
            await asyncio.wait_for(router.wait(), 10)
            await assert_nothing_held(router)
        finally:
            held.may_end.set()
            await router.stop()


async def get(port: int, path: bytes) -> int:
    async with await Client.connect(port) as client:
        await client.send(b"GET %b HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n" % path)
        return int((await client.read_to_end()).split(b" ", 2)[1])


async def test_with_a_delay_it_is_unready_and_serves_whoever_comes_until_it_is_over():
    held = Held()
    held.may_end.set()
    async with draining_router(held, drain_delay=1.0) as router:
        assert await get(router.port, b"/ready") == 200
        async with await Client.connect(router.port) as client:
            await client.send(STREAM)
            assert (await client.read_head()).values(b"connection") == []
            while await client.read_chunk():
                pass
            router.begin_stop()
            assert await get(router.port, b"/ready") == 503
            assert await get(router.port, b"/health") == 200
            # An old connection gets its answer and the advice to go elsewhere.
            await client.send(STREAM)
            head = await client.read_head()
            assert (head.status, head.values(b"connection")) == (200, [b"close"])
            assert (await client.read_to_end()).endswith(b"\r\n0\r\n\r\n")
        async with await Client.connect(router.port) as client:
            await client.send(STREAM)
            assert (await client.read_head()).status == 200


async def test_nobody_is_taken_in_any_more_and_the_end_comes_as_soon_as_nothing_runs():
    held = Held()
    async with draining_router(held, drain_timeout=60.0) as router:
        port = router.port
        async with await Client.connect(port) as client:
            await client.send(STREAM)
            assert (await client.read_head()).status == 200
            router.begin_stop()
            await eventually(lambda: not listens(router), "it does not listen any more", 5)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
            began = time.monotonic()
            held.may_end.set()
            assert (await client.read_to_end()).endswith(b"\r\n0\r\n\r\n")
            await router.wait()
            assert time.monotonic() - began < 20


async def test_who_still_runs_when_the_time_is_over_is_told_in_band(caplog):
    held = Held()
    async with draining_router(held, drain_timeout=0.2) as router, await Client.connect(router.port) as client:
        await client.send(STREAM)
        assert (await client.read_head()).status == 200
        assert await client.read_chunk() == FIRST
        router.begin_stop()
        rest = await client.read_to_end()
        assert rest.endswith(b"\r\n0\r\n\r\n")
        event = rest.split(b"\r\n")[1].removeprefix(b"data: ")
        assert json.loads(event)["error"]["message"] == "The router is shutting down"
    assert "drain-timeout is over: 1 running requests are told and ended" in caplog.messages


async def test_the_second_order_to_stop_cuts_the_delay_short_as_well():
    held = Held()
    async with draining_router(held, drain_delay=60.0, drain_timeout=60.0) as router:
        async with await Client.connect(router.port) as client:
            await client.send(STREAM)
            assert (await client.read_head()).status == 200
            router.begin_stop()
            router.begin_stop()
            router.abandon_running()
            assert b"shutting down" in await client.read_to_end()


def listens(router: Router) -> bool:
    return any(server.is_serving() for server in router._server.servers)
