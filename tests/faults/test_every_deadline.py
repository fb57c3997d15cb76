"""Each deadline by itself: what the client gets, what is counted, and who is blamed."""

import asyncio

import pytest
from tests.behaviour.test_failover import unanswering_port
from tests.faults.worker_faults import good
from tests.support.http_client import Client, ask, post
from tests.support.pd import EVENTS, JSON_BODY, PREFILL_ANSWER, chat, pairs_over
from tests.support.router import assert_nothing_held, eventually, router_over
from tests.support.scripted_worker import SSE_HEAD, Hanging, ScriptedWorker, answering, chunk

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("before", [b"", SSE_HEAD], ids=["nothing", "a head"])
async def test_a_request_that_takes_too_long_is_504(before):
    """Nobody else is asked, and no worker is blamed: it may have been computing."""
    async with ScriptedWorker() as one, ScriptedWorker() as other:
        one.script = other.script = hanging = Hanging(before)
        async with router_over(one, other, server={"request_timeout": 0.4}) as router:
            answer = await ask(router.port, chat(stream=True))
            assert answer.status == 504
            assert answer.error["code"] == "gateway_timeout"
            await eventually(hanging.given_up.is_set, "the worker is told")
            assert len(one.requests) + len(other.requests) == 1
            assert router.metrics.deadlines["request"] == 1
            assert not router.metrics.failed_attempts
            await assert_nothing_held(router)


async def test_a_stream_that_takes_too_long_ends_with_an_error_event():
    async with ScriptedWorker(Hanging(SSE_HEAD + chunk(EVENTS[0]))) as worker:
        async with router_over(worker, server={"request_timeout": 0.4}) as router:
            answer = await ask(router.port, chat(stream=True))
            assert answer.body.startswith(
                EVENTS[0] + b'data: {"error": {"message": "The request took longer than 0.4 s"'
            )
            assert router.metrics.deadlines["request"] == 1
            assert not router.metrics.broken_streams


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
async def test_a_pair_that_takes_too_long_is_ended_on_both_sides(dialect):
    async with pairs_over(dialect, server={"request_timeout": 0.4}) as pairs:
        pairs.prefill.then = prefill = Hanging()
        pairs.decode.then = decode = Hanging()
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 504
        await eventually(prefill.given_up.is_set, "prefill is told")
        if dialect == "sglang":
            await eventually(decode.given_up.is_set, "decode is told")
        assert pairs.router.metrics.deadlines["request"] == 1
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_ANSWER), answering(good(stream=False))
        assert (await ask(pairs.router.port, chat())).body == JSON_BODY


async def test_a_worker_that_takes_no_connection_in_time_is_replaced():
    async with ScriptedWorker() as deaf, ScriptedWorker() as sound:
        sound.script = answering(good(stream=False))
        settings = {
            "server": {"connect_timeout": 0.2, "upstream_idle_timeout": 0},
            "scheduler": {"policy": "round_robin"},
        }
        async with router_over(deaf, sound, **settings) as router:
            await deaf.stop_listening()
            for connection in tuple(deaf.open_connections):
                await connection.close()
            with unanswering_port(deaf.port):
                answers = [await ask(router.port, chat()) for _ in range(4)]
            assert {answer.body for answer in answers} == {JSON_BODY}
            assert router.metrics.failed_attempts == {"connect_timeout": 1}, "after that it is left out"
            assert router.metrics.failovers == {"connect_timeout": 1}
            assert router.metrics.deadlines["connect"] == 1


@pytest.mark.parametrize(
    "sent", [b"", post()[:40], post()[:-20]], ids=["nothing", "a part of the head", "a part of the body"]
)
async def test_a_client_that_sends_byte_by_byte_is_refused(sent):
    """Each byte comes in time, the request does not: as slow-loris does it."""
    async with ScriptedWorker() as worker, router_over(worker, server={"client_read_timeout": 0.4}) as router:
        async with await Client.connect(router.port) as client:
            await client.send(sent)

            async def drip():
                while True:
                    await client.send(b"X" if sent else b"P")
                    await asyncio.sleep(0.1)

            dripping = asyncio.create_task(drip())
            answer = await client.read_response()
            dripping.cancel()
            assert answer.status == (400 if not sent else 408)
            if sent:
                assert router.metrics.deadlines["client_read"] == 1
        assert worker.requests == []


async def test_idle_connections_are_closed_on_both_sides_and_counted():
    async with ScriptedWorker() as worker:
        server = {"client_idle_timeout": 0.2, "upstream_idle_timeout": 0.2}
        async with router_over(worker, server=server) as router, await Client.connect(router.port) as client:
            assert (await client.ask(post())).status == 200
            assert await client.read_to_end() == b""
            await eventually(lambda: router.gateway.upstream_connections == 0, "the worker's is closed")
            assert router.metrics.deadlines["client_idle"] == 1
            assert router.metrics.deadlines["upstream_idle"] == 1


async def test_an_outage_is_not_amplified():
    """All workers answer 500: of many requests at once, ten are tried again; all get the engine's answer."""
    async with ScriptedWorker() as one, ScriptedWorker() as other:
        one.script = other.script = answering(b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno")
        async with router_over(one, other) as router:
            loop = asyncio.get_running_loop()
            began = loop.time()
            answers = await asyncio.gather(*(ask(router.port, post()) for _ in range(60)))
            slots = int(loop.time() - began) + 1
            assert {(answer.status, answer.body) for answer in answers} == {(500, b"no")}
            retried = len(one.requests) + len(other.requests) - 60
            assert 0 < retried <= 10 * slots + 0.2 * 60
            assert router.metrics.retries_denied == 60 - retried


async def test_back_pressure_is_passed_on_once_all_others_were_asked():
    busy = b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
    async with ScriptedWorker(answering(busy)) as one, ScriptedWorker(answering(busy)) as other:
        async with router_over(one, other, breaker_failures=1) as router:
            for number in range(1, 21):
                answer = await ask(router.port, post())
                assert (answer.status, answer.body, answer.value(b"retry-after")) == (429, b"busy", b"7")
                assert len(one.requests) == len(other.requests) == number
            assert len(router.fleet.pool("mixed", None).candidates) == 2, "nobody is blamed"
            assert router.metrics.retries_denied == 0


@pytest.mark.parametrize("before", [b"", SSE_HEAD, SSE_HEAD + chunk(EVENTS[0])], ids=["nothing", "a head", "an event"])
async def test_of_a_frozen_worker_only_what_has_no_byte_of_a_body_is_moved(before):
    async with ScriptedWorker() as frozen, ScriptedWorker() as sound:
        frozen.script = hanging = Hanging(before)
        sound.script = answering(good(stream=True))
        async with router_over(frozen, sound, scheduler={"policy": "round_robin"}) as router:
            waiting = [asyncio.create_task(ask(router.port, chat(stream=True))) for _ in range(2)]
            await asyncio.wait_for(hanging.started.wait(), 5)
            await eventually(lambda: router.ledger.open_leases == 1, "the sound worker has served")
            await asyncio.sleep(0.02)
            router.gateway.worker_frozen(router.fleet.get(frozen.url).worker)
            if EVENTS[0] in before:
                await asyncio.sleep(0.05)
                assert router.ledger.open_leases == 1
                assert not router.metrics.failed_attempts
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                return
            answers = await asyncio.gather(*waiting)
            assert {answer.body for answer in answers} == {b"".join(EVENTS)}
            assert router.metrics.failovers == {"frozen": 1}
