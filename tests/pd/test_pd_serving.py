"""What a pair does when all is well."""

import asyncio

import pytest
from tests.support.http_client import Client, ask
from tests.support.memory import tracing
from tests.support.pd import (
    DIALECTS,
    EVENTS,
    HANDLE,
    JSON_BODY,
    PREFILL_ANSWER,
    STREAM_BODY,
    chat,
    good_answer,
    pairs_over,
)
from tests.support.router import eventually
from tests.support.scripted_worker import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Connection,
    Request,
    answering,
    chunk,
    response,
    then_closing,
)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_of_decode_is_the_clients(dialect, stream):
    async with pairs_over(dialect) as pairs:
        pairs.decode.then = good_answer(stream)
        for _ in range(3):
            answer = await ask(pairs.router.port, chat(stream))
            assert (answer.status, answer.body) == (200, STREAM_BODY if stream else JSON_BODY)
            (prefill,), (decode,) = pairs.prefill.workers, pairs.decode.workers
            assert answer.value(b"x-router-prefill-url") == prefill.url.encode()
            assert answer.value(b"x-router-decode-url") == decode.url.encode()
            assert answer.value(b"x-router-worker-url") == decode.url.encode()
        assert (len(pairs.prefill.seen), len(pairs.decode.seen)) == (3, 3)
        assert pairs.statuses() == {("prefill", 200): 3, ("decode", 200): 3}
        if dialect == "vllm":
            assert HANDLE in pairs.decode.seen[0].body
        else:
            assert [request.body for request in pairs.prefill.seen] == [request.body for request in pairs.decode.seen]


@pytest.mark.parametrize("dialect", ["vllm", "fastdeploy"])
async def test_the_prefill_workers_answer_tells_its_pace(dialect):
    """Although it comes in one piece: here the decode worker answers after it, as it does after a slow transfer."""
    async with pairs_over(dialect, prefill_policy="least_delay") as pairs:
        (row,) = pairs.router.fleet.pairs(None).prefill.candidates

        async def decode(request, connection):
            await eventually(lambda: row.pace.known, "the prefill worker's pace is known", 5)
            await good_answer(stream=True)(request, connection)

        pairs.decode.then = decode
        assert (await ask(pairs.router.port, chat(True))).status == 200
        assert (row.pace.open, row.pace.waiting) == (0, 0)


async def test_the_answer_of_sglangs_prefill_worker_tells_nothing_of_its_pace():
    """It comes when the decode worker has taken the prompt over, however long that had no room."""
    async with pairs_over("sglang", prefill_policy="least_delay") as pairs:
        (row,) = pairs.router.fleet.pairs(None).prefill.candidates
        assert (await ask(pairs.router.port, chat(True))).status == 200
        await eventually(lambda: not row.pace.open, "the prefill worker's lease is back", 5)
        assert not row.pace.known


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_request_is_not_kept_while_its_answer_streams(dialect):
    """Neither as it came nor as a leg got it, and not by what is known of a pair that failed before."""
    go_on = asyncio.Event()

    async def decode(_request, connection):
        await connection.send(SSE_HEAD + chunk(EVENTS[0]))
        await go_on.wait()
        await connection.send(chunk(DONE) + LAST_CHUNK)

    size = 2**22
    request = chat(stream=True, padding="x" * size)
    async with pairs_over(dialect, 2, 2) as pairs, await Client.connect(pairs.router.port) as client:
        pairs.prefill.first = [then_closing(b""), answering(PREFILL_ANSWER)]
        pairs.decode.then = decode
        with tracing() as held:
            await client.send(request)
            await client.read_head()
            assert await client.read_chunk() == EVENTS[0]
            assert held() < size // 4
        go_on.set()
        assert await client.read_chunk() == DONE


async def test_connections_to_a_decode_worker_are_known_though_prefill_took_longer_than_they_are_kept() -> None:
    """While nothing is open to a worker, the pool forgets it; the decode leg comes later."""

    async def slow(_request: Request, connection: Connection) -> None:
        await asyncio.sleep(0.6)
        await connection.send(PREFILL_ANSWER)

    async def silent(_request: Request, connection: Connection) -> None:
        worker = pairs.router.fleet.get(pairs.decode.workers[0].url).worker
        seen.append(len(pairs.router.gateway.upstream.of(worker).open))
        await connection.send(response())

    seen: list[int] = []
    async with pairs_over("vllm", server={"upstream_idle_timeout": 0.1}) as pairs:
        pairs.prefill.then = slow
        pairs.decode.then = silent
        async with await Client.connect(pairs.router.port) as client:
            assert (await client.ask(chat())).status == 200
    assert seen == [1]
