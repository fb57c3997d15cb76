"""A router that does not wait any longer for what runs."""

import asyncio
import time

from tests.support.http_client import Client, post
from tests.support.router import assert_nothing_held, config
from tests.support.scripted_worker import SSE_HEAD, ScriptedWorker, chunk

from warmroute.app import Router


async def test_a_client_that_does_not_read_is_not_waited_for_long(caplog):
    async def endless(_request, connection):
        try:
            await connection.send(SSE_HEAD)
            while True:
                await connection.send(chunk(b"data: " + b"x" * 65536 + b"\n\n"))
        except OSError:
            pass

    async with ScriptedWorker() as worker:
        worker.script = endless
        router = Router(config(worker.url), seed=1)
        await router.start()
        try:
            async with asyncio.timeout(5):
                while not router.fleet.pool("mixed", None).candidates:
                    await asyncio.sleep(0.01)
            async with await Client.connect(router.port, receive_buffer=4096) as client:
                await client.send(post(body=b'{"stream": true}'))
                assert (await client.read_head()).status == 200
                began = time.monotonic()
                router.begin_stop()
                router.abandon_running()
                await router.wait()
                assert time.monotonic() - began < 10  # of the 30 s that running requests have otherwise
                await assert_nothing_held(router)
        finally:
            await router.stop()
    assert not [record for record in caplog.records if record.exc_info]


async def test_those_who_only_watch_are_not_waited_for():
    router = Router(config(), seed=1)
    await router.start()
    try:
        async with await Client.connect(router.port) as client:
            await client.send(b"GET /admin/events HTTP/1.1\r\nHost: router\r\n\r\n")
            assert (await client.read_head()).status == 200
            assert (await client.read_chunk()).startswith(b"event: state\ndata: {")
            began = time.monotonic()
            router.begin_stop()
            await router.wait()
            assert time.monotonic() - began < 10
            while await client.read_chunk():
                pass  # the stream ends as a whole message does
    finally:
        await router.stop()
