"""The connections to all workers, over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from warmroute.gateway.errors import ConnectFailed
from warmroute.gateway.upstream.pool import UpstreamPool
from warmroute.scheduling.worker import Worker


@pytest.fixture
async def worker():
    """A worker that accepts connections and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield Worker(address, f"http://{address}")
    server.close()


async def closed(pool: UpstreamPool) -> None:
    pool.close()
    async with asyncio.timeout(2):
        while pool.open_connections:
            await asyncio.sleep(0.002)


async def test_the_connection_used_last_is_taken_first(worker):
    pool = UpstreamPool(10, asyncio.get_running_loop())
    connections = pool.of(worker)
    assert pool.of(worker) is connections
    first, second = await connections.connect(), await connections.connect()
    connections.connection_free(first)
    connections.connection_free(second)
    assert pool.open_connections == 2
    assert (
        connections.idle.take(pool.now()),
        connections.idle.take(pool.now()),
        connections.idle.take(pool.now()),
    ) == (second, first, None)
    first.abort()
    second.abort()
    await closed(pool)


async def test_what_is_idle_for_too_long_is_closed_and_the_record_forgotten(worker):
    pool = UpstreamPool(0.1, asyncio.get_running_loop())
    connections = pool.of(worker)
    connections.connection_free(await connections.connect())
    async with asyncio.timeout(2):
        while pool.open_connections or pool.of(worker) is connections:
            await asyncio.sleep(0.05)
    await closed(pool)


async def test_a_connection_that_comes_back_after_the_end_is_closed(worker):
    pool = UpstreamPool(10, asyncio.get_running_loop())
    connections = pool.of(worker)
    connection = await connections.connect()
    pool.close()
    connections.connection_free(connection)
    assert connections.idle.take(pool.now()) is None
    await closed(pool)


async def test_an_idle_connection_that_the_worker_ends_is_forgotten():
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    pool = UpstreamPool(10, asyncio.get_running_loop())
    connections = pool.of(Worker(address, f"http://{address}"))
    connections.connection_free(await connections.connect())
    ended.set()
    async with asyncio.timeout(2):
        while pool.open_connections:
            await asyncio.sleep(0.002)
    assert connections.idle.take(pool.now()) is None
    server.close()
    await closed(pool)


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancellation_at_any_turn_leaves_no_connection(worker, turns):
    pool = UpstreamPool(10, asyncio.get_running_loop())
    connecting = asyncio.get_running_loop().create_task(pool.of(worker).connect())
    for _ in range(turns):
        await asyncio.sleep(0.0002 if turns > 6 else 0)
    connecting.cancel()
    (outcome,) = await asyncio.gather(connecting, return_exceptions=True)
    if not isinstance(outcome, asyncio.CancelledError):
        assert pool.open_connections == 1
        outcome.abort()
    assert pool.open_connections == 0
    await closed(pool)


async def test_refused_and_silent_addresses():
    pool = UpstreamPool(10, asyncio.get_running_loop(), connect_timeout=0.1)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(ConnectFailed):
            await pool.of(Worker("a", f"http://127.0.0.1:{port}")).connect()
        # A listener whose queue is full does not answer any more.
        deaf.listen(0)
        queued = [socket.socket() for _ in range(3)]
        for waiting in queued:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        with pytest.raises(ConnectFailed, match=r"no connection within 0\.1 s"):
            await pool.of(Worker("b", f"http://127.0.0.1:{port}")).connect()
        for waiting in queued:
            waiting.close()
    await closed(pool)
