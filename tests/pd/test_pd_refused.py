"""Workers that are not there: refused and silent connections, kept connections that have died, dead partners."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from tests.support.descriptors import no_descriptor_left
from tests.support.http_client import Client, ask
from tests.support.pd import (
    DIALECTS,
    HANDLE,
    JSON_BODY,
    PREFILL_ANSWER,
    Failing,
    Waiting,
    chat,
    good_answer,
    pairs_over,
)
from tests.support.router import eventually
from tests.support.scripted_worker import answering, response, then_closing, then_resetting

SIDES = ("prefill", "decode")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("side", SIDES)
async def test_one_dead_worker_of_two_loses_no_request(dialect, side):
    async with pairs_over(dialect, 2, 2) as pairs:
        dead = getattr(pairs, side).workers[0]
        await dead.stop_listening()
        for connection in tuple(dead.open_connections):
            await connection.close()
        gate = asyncio.Semaphore(8)

        async def one(number: int):
            async with gate:
                return await ask(pairs.router.port, chat())

        answers = await asyncio.gather(*map(one, range(100)))
        assert {(answer.status, answer.body) for answer in answers} == {(200, JSON_BODY)}
        other = pairs.decode if side == "prefill" else pairs.prefill
        assert {worker.url for worker in other.seen_by} == {worker.url for worker in other.workers}, "none is blamed"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("side", SIDES)
async def test_all_refusing_is_502_and_nothing_was_sent_to_the_other_side(dialect, side):
    async with pairs_over(dialect, 2, 2, pd_decode_alone="never") as pairs:
        await getattr(pairs, side).refuse()
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 502
        assert answer.error["message"].startswith("Failed to connect to backend service")
        if dialect != "vllm":
            assert pairs.prefill.seen == pairs.decode.seen == []
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 503
        assert answer.error["message"].startswith("No available prefill/decode workers")
        assert answer.values(b"retry-after") == [b"1"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("side", SIDES)
async def test_a_request_that_workers_do_not_survive_is_given_to_three(dialect, side):
    async with pairs_over(dialect, 4, 4) as pairs:
        deadly = getattr(pairs, side)
        deadly.first = [Failing(then_closing(b""), None if dialect == "vllm" else Waiting()) for _ in range(4)]
        other = pairs.decode if side == "prefill" else pairs.prefill
        if dialect != "vllm":
            other.first = [failing.partner for failing in deadly.first]
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 502
        assert len({worker.url for worker in deadly.seen_by}) == len(deadly.seen) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_router_without_descriptors_blames_no_worker(dialect):
    async with (
        pairs_over(dialect, keeps_connections=False, pd_decode_alone="never") as pairs,
        await Client.connect(pairs.router.port) as client,
    ):
        await client.send(chat())
        assert (await client.read_response()).status == 200
        with no_descriptor_left():
            await client.send(chat())
            answer = await client.read_response()
        assert answer.status == 503
        assert answer.error["message"].startswith("The router cannot open a connection")
        assert pairs.routable() == 2
        await client.send(chat())
        assert (await client.read_response()).status == 200


@asynccontextmanager
async def deaf(side):
    """The workers' addresses take connections into a queue that is full."""
    await side.refuse()
    sockets = []
    for worker in side.workers:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", worker.port))
        listener.listen(0)
        queued = [socket.socket() for _ in range(3)]
        for waiting in queued:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", worker.port))
        sockets += [listener, *queued]
    try:
        yield
    finally:
        for one in sockets:
            one.close()


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
@pytest.mark.parametrize("side", SIDES)
async def test_no_connection_in_time_is_504(dialect, side):
    server = {"connect_timeout": 0.1}
    async with pairs_over(dialect, server=server, pd_decode_alone="never") as pairs, deaf(getattr(pairs, side)):
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 504
        assert answer.error["code"] == "gateway_timeout"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("failing", [then_resetting(), then_closing(b"")])
async def test_a_kept_connection_that_has_died_is_no_failure(dialect, side, failing):
    """The leg is sent again to the same worker, while the other one goes on waiting for it."""
    async with pairs_over(dialect) as pairs:
        for _ in range(2):
            assert (await ask(pairs.router.port, chat())).status == 200
            leg = getattr(pairs, side)
            leg.first = [failing]
            seen = len(pairs.prefill.seen), len(pairs.decode.seen)
            if side == "prefill":
                pairs.decode.first = [_once(lambda: len(pairs.prefill.seen) == seen[0] + 2)]  # noqa: B023
            answer = await ask(pairs.router.port, chat())
            assert (answer.status, answer.body) == (200, JSON_BODY)
            more = len(pairs.prefill.seen) - seen[0], len(pairs.decode.seen) - seen[1]
            assert more == ((2, 1) if side == "prefill" else (1, 2))
            assert leg.seen[-1].body == leg.seen[-2].body


def _once(condition):
    """A decode worker that answers when the condition holds, as if it waited for its partner."""

    async def script(request, connection):
        await eventually(condition, "the partner has its request")
        await good_answer(stream=False)(request, connection)

    return script


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
@pytest.mark.parametrize("side", SIDES)
async def test_a_kept_connection_that_has_died_and_no_new_one(dialect, side):
    async with pairs_over(dialect) as pairs:
        assert (await ask(pairs.router.port, chat())).status == 200
        leg, other = (pairs.prefill, pairs.decode) if side == "prefill" else (pairs.decode, pairs.prefill)
        partner = Waiting()

        async def die(_request, connection):
            await partner.started.wait()
            await leg.workers[0].stop_listening()
            await connection.reset()

        leg.first, other.first = [die], [partner]
        assert (await ask(pairs.router.port, chat())).status == 502
        await partner.closed_at()


@pytest.mark.parametrize("status", [b"500 Oops", b"503 Busy"])
async def test_a_fault_of_decode_counts_against_a_prefill_worker_that_is_unreachable(status):
    """It cannot fetch what the other does not give any more."""
    async with pairs_over("vllm", 2, 1) as pairs:

        async def fail(_request, connection):
            gone = pairs.prefill.seen_by[-1]
            await gone.stop_listening()
            for one in tuple(gone.open_connections):
                await one.close()
            await connection.send(response(b"no cache", status))

        pairs.decode.first = [fail]
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (200, JSON_BODY)
        assert pairs.prefill.seen_by[0] is not pairs.prefill.seen_by[1]
        assert pairs.decode.seen_by[0] is pairs.decode.seen_by[1]


async def test_a_fault_of_decode_stays_its_own_while_its_prefill_worker_is_there():
    async with pairs_over("vllm", 2, 1) as pairs:
        pairs.decode.first = [answering(response(b"mine", b"500 Oops"))]
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (500, b"mine")
        assert len(pairs.prefill.seen) == len(pairs.decode.seen) == 1


async def test_with_the_only_prefill_worker_gone_in_between_decode_serves_alone():
    async with pairs_over("vllm") as pairs:

        async def fail(_request, connection):
            await pairs.prefill.refuse()
            await connection.send(response(b"no cache", b"500 Oops"))

        pairs.decode.first = [fail]
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (200, JSON_BODY)
        assert HANDLE in pairs.decode.seen[0].body
        assert HANDLE not in pairs.decode.seen[1].body
        assert pairs.router.metrics.decode_alone == {"no_prefill": 1}


async def test_the_prefill_leg_is_not_sent_before_decode_takes_connections():
    async with pairs_over("sglang", 1, 2) as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_ANSWER), good_answer(stream=False)
        await pairs.decode.workers[0].stop_listening()
        for connection in tuple(pairs.decode.workers[0].open_connections):
            await connection.close()
        for _ in range(2):
            assert (await ask(pairs.router.port, chat())).status == 200
        assert len(pairs.prefill.seen) == len(pairs.decode.seen) == 2
        assert pairs.prefill.workers[0].connections_made <= 3, "an unused connection is kept"


async def test_the_answer_of_a_fault_is_the_clients_if_nobody_can_serve_alone_either():
    async with pairs_over("vllm") as pairs:

        async def fail(_request, connection):
            await pairs.prefill.refuse()
            await pairs.decode.workers[0].stop_listening()
            await connection.send(response(b"no cache", b"500 Oops"))
            await connection.close()

        pairs.decode.first = [fail]
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (500, b"no cache")
