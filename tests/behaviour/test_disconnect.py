"""A client that leaves: its request ends upstream, and what it held is given back."""

import asyncio

import pytest
from tests.support.http_client import COMPLETIONS, Client, ask, post
from tests.support.router import eventually
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, Hanging, answering, chunk, head, response

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = post(body={"model": "m", "messages": [{"role": "user", "content": "x" * 4000}], "stream": True})
LENGTH_HEAD = head(b"200 OK", [(b"Content-Length", b"1000000")])
STAGES = {
    "before the head": b"",
    "inside the head": b"HTTP/1.1 200 OK\r\nContent-",
    "after the head": SSE_HEAD,
    "inside a stream": SSE_HEAD + chunk(b"data: 1\n\n"),
    "inside a body": LENGTH_HEAD + b"abc",
}


@pytest.mark.parametrize("before", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("leave", ["close", "abort"])
async def test_client_gone_upstream_closed_lease_back(router, worker, before, leave):
    worker.script = hanging = Hanging(before)
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        await asyncio.wait_for(hanging.started.wait(), 5)
        await eventually(lambda: router.ledger.open_leases == 1, "the request holds a lease")
        if leave == "abort":
            client.abort()
        else:
            client.writer.close()
        await eventually(hanging.given_up.is_set, "the connection to the worker is closed")
        await eventually(lambda: router.ledger.open_leases == 0, "the lease is back")
    (load,) = [worker.load for worker in router.ledger.workers()]
    assert (load.running_requests, load.pending_prefill_tokens, load.active_tokens) == (0, 0, 0)


async def test_the_worker_serves_the_next_request(router, worker):
    worker.script = hanging = Hanging(SSE_HEAD + chunk(b"data: 1\n\n"))
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        await client.read_head()
        client.abort()
        await eventually(hanging.given_up.is_set, "the connection to the worker is closed")
    worker.script = answering(response(b"next"))
    assert (await ask(router.port, post())).body == b"next"


async def test_a_client_that_leaves_while_it_is_too_slow_is_noticed(router, worker):
    """While writing to it is paused, nothing else would tell that it is gone."""
    given_up = asyncio.Event()

    async def script(_request, connection):
        try:
            await connection.send(SSE_HEAD)
            while True:
                await connection.send(chunk(b"x" * 65536))
        finally:
            given_up.set()

    worker.script = script
    async with await Client.connect(router.port, receive_buffer=65536) as client:
        await client.send(STREAM)
        await client.read_head()
        await asyncio.sleep(0.3)
        client.abort()
        await eventually(given_up.is_set, "the connection to the worker is closed")


async def test_pipelined_requests_of_a_client_that_left_are_not_sent(router, worker):
    worker.script = hanging = Hanging()
    async with await Client.connect(router.port) as client:
        await client.send(post() * 3)
        await asyncio.wait_for(hanging.started.wait(), 5)
        client.abort()
        await eventually(hanging.given_up.is_set, "the connection to the worker is closed")
        await eventually(lambda: router.ledger.open_leases == 0, "the lease is back")
    assert len(worker.requests) == 1


async def test_a_body_that_never_ends_holds_nothing(router, worker):
    async with await Client.connect(router.port) as client:
        await client.send(post(COMPLETIONS, {"model": "m", "prompt": "x" * 10_000})[:-500])
        await asyncio.sleep(0.05)
        assert router.ledger.open_leases == 0
        client.abort()
    assert (await ask(router.port, post())).status == 200
    assert len(worker.requests) == 1


async def test_an_end_of_sending_counts_as_leaving(router, worker):
    """A client that closed only its sending half looks like one that left, and answers are dear: both get none."""
    worker.script = hanging = Hanging(SSE_HEAD + chunk(b"data: 1\n\n"))
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        await client.read_head()
        client.end_sending()
        await eventually(hanging.given_up.is_set, "the connection to the worker is closed")
        assert not (await client.read_to_end()).endswith(LAST_CHUNK)


async def test_hundred_clients_leave_at_once(router, worker):
    worker.script = Hanging(SSE_HEAD)
    clients = [await Client.connect(router.port) for _ in range(100)]
    for client in clients:
        await client.send(STREAM)
    await eventually(lambda: router.ledger.open_leases == 100, "all requests hold a lease", 5)
    for client in clients:
        client.abort()
    await eventually(lambda: router.ledger.open_leases == 0, "all leases are back", 2)
    await eventually(lambda: router.gateway.upstream_connections == 0, "no connection to the worker is left", 2)
