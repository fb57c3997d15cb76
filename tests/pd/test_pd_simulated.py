"""Simulated vLLM engines behind a real router: the KV cache is lost between the legs, and no request is."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.http_client import ask
from tests.support.pd import chat
from tests.support.router import config, eventually, running

from warmroute.simulation.engine import start_engine
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing


@asynccontextmanager
async def engines_behind_a_router(prefills: int, decodes: int, **first_prefill):
    """The router, the prefill engines, the first one with these settings, and the decode engines."""
    async with AsyncExitStack() as stack:
        engines = []
        for role in ["prefill"] * prefills + ["decode"] * decodes:
            changes = {} if engines else first_prefill
            engines.append(await start_engine(EngineSettings(speed=100.0, dialect="vllm", role=role, **changes)))
            stack.push_async_callback(engines[-1].stop)
        urls = [engine.url for engine in engines]
        settings = config(
            server={"splitwise": True},
            scheduler={"prefill_policy": "round_robin", "decode_policy": "round_robin"},
            prefill=urls[:prefills],
            decode=urls[prefills:],
            engine="vllm",
        )
        router = await stack.enter_async_context(running(settings, 0))
        pairs = router.fleet.pairs
        await eventually(lambda: len(pairs(None).prefill.candidates) == prefills, "prefill is routable", 5)
        await eventually(lambda: len(pairs(None).decode.candidates) == decodes, "decode is routable", 5)
        yield router, engines[:prefills], engines[prefills:]


def text_of(body: bytes) -> str:
    """The text of a streamed answer that is complete."""
    *events, done, end = body.split(b"\n\n")
    assert (done, end) == (b"data: [DONE]", b"")
    choices = [choice for event in events for choice in json.loads(event[6:])["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


SLOW = Timing(transfer_speed=0.01)
"""Its KV cache takes longer to fetch than the test lasts."""
REQUEST = chat(stream=True, max_tokens=8, model=EngineSettings().model)


@pytest.mark.parametrize("prefills", [1, 2])
async def test_a_prefill_engine_that_crashes_while_its_kv_cache_is_fetched_loses_no_stream(prefills):
    """Another one computes it anew, or the decode engine does."""
    async with engines_behind_a_router(prefills, 1, timing=SLOW) as (router, prefill, (decode,)):
        asks = [asyncio.create_task(ask(router.port, REQUEST)) for _ in range(prefills)]
        await eventually(lambda: sum(map(asyncio.Task.done, asks)) == prefills - 1, "the others are served", 5)
        await eventually(lambda: decode.core.running == prefill[0].kv_held == 1, "the KV cache is on its way", 5)
        await prefill[0].crash()
        answers = [await one for one in asks]
        expected = await ask(decode.port, REQUEST)
        assert {answer.status for answer in answers} == {200}
        assert {text_of(answer.body) for answer in answers} == {text_of(expected.body)} != {""}
        assert decode.kv.failed == 1
        assert router.metrics.decode_alone.total() == (1 if prefills == 1 else 0)


async def test_with_nobody_left_the_stream_is_the_clients_as_the_engine_wrote_it():
    async with engines_behind_a_router(1, 2, lease_seconds=0.0) as (router, _, decodes):
        answer = await ask(router.port, REQUEST)
        role, error, done, end = answer.body.split(b"\n\n")
        assert answer.status == 200
        assert b'"role":"assistant"' in role
        assert error == (
            b'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, '
            b'"code": 500}}'
        )
        assert (done, end) == (b"data: [DONE]", b"")
        assert [decode.kv.failed for decode in decodes] == [1, 1]
