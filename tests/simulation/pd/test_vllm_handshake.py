"""The NIXL handshake over loopback: one leg, then the other."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from tests.simulation.pd.legs import CHAT, CHAT_TOKENS, REMOTE_DECODE, message, post, text_of, vllm_handle

from warmroute.simulation.timing import Timing


@pytest.mark.parametrize("stream", [False, True])
async def test_a_pair_answers_like_one_engine(pair, start, http, stream):
    prefill, decode = await pair("vllm")
    alone = await start()
    handle = await vllm_handle(http, prefill)
    assert (prefill.kv_held, prefill.core.kept, decode.core.running) == (1, 1, 0)
    status, answer = await post(http, decode, {**CHAT, "stream": stream, "kv_transfer_params": handle})
    _, expected = await post(http, alone, {**CHAT, "stream": stream})
    assert (status, text_of(answer)) == (200, text_of(expected))
    assert (prefill.kv_held, prefill.core.kept, prefill.core.cache.used) == (0, 0, 0)
    assert (prefill.kv.sent, decode.kv.received, decode.kv.mismatches) == (1, 1, 0)
    assert decode.core.received_tokens_total == CHAT_TOKENS


async def test_the_handle_has_the_members_of_the_real_one(pair, http):
    prefill, _ = await pair("vllm")
    handle = await vllm_handle(http, prefill)
    assert handle["do_remote_prefill"] is True
    assert (handle["remote_host"], handle["remote_port"]) == ("127.0.0.1", prefill.port)
    assert (handle["remote_num_tokens"], handle["transfer_mode"]) == (CHAT_TOKENS, "pull")
    assert len(handle["remote_block_ids"][0]) == 7
    assert handle["remote_blocks_expiry_time"] > time.time()


async def test_each_engine_tells_its_own_cache_hits(pair, http):
    """As measured with vLLM: the decode engine knows nothing of what the prefill engine has cached."""
    prefill, decode = await pair("vllm")
    longer = {**CHAT, "messages": [*CHAT["messages"], {"role": "user", "content": "more " * 40}]}
    await vllm_handle(http, prefill)
    leg = {**longer, "max_tokens": 1, "kv_transfer_params": REMOTE_DECODE}
    _, first = await post(http, prefill, leg)
    _, second = await post(http, decode, {**longer, "kv_transfer_params": first["kv_transfer_params"]})
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 96
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_without_a_handle_it_serves_alone(pair, http):
    _, decode = await pair("vllm")
    status, _ = await post(http, decode, CHAT)
    assert (status, decode.kv.alone, decode.kv.received) == (200, 1, 0)


async def test_a_used_handle_serves_as_long_as_the_own_cache_has_the_prompt(pair, http):
    prefill, decode = await pair("vllm")
    handle = await vllm_handle(http, prefill)
    body = {**CHAT, "kv_transfer_params": handle}
    for _ in range(2):
        status, _ = await post(http, decode, body)
        assert status == 200
    assert (decode.kv.received, decode.kv.recomputed) == (1, 1)


@pytest.mark.parametrize(("policy", "expected"), [("fail", 500), ("recompute", 200)])
async def test_a_dead_prefill_engine(pair, start, http, policy, expected):
    prefill, decode = await pair("vllm", on_kv_loss=policy)
    handle = await vllm_handle(http, prefill)
    await prefill.crash()
    status, answer = await post(http, decode, {**CHAT, "kv_transfer_params": handle})
    assert status == expected
    assert (decode.kv.failed, decode.kv.received) == (1, 0)
    if status == 200:
        _, whole = await post(http, await start(), CHAT)
        assert text_of(answer) == text_of(whole)
    assert (decode.core.running, decode.core.cache.used) == (0, 0)


@pytest.mark.parametrize("kind", ["chat", "completions"])
async def test_a_stream_whose_kv_cache_does_not_come_has_begun(pair, http, kind):
    """The very bytes of the error are vLLM 0.32's."""
    prefill, decode = await pair("vllm")
    path = "/v1/chat/completions" if kind == "chat" else "/v1/completions"
    prompt = CHAT if kind == "chat" else {"prompt": "Tell me something. " * 20, "max_tokens": 24}
    leg = {**prompt, "max_tokens": 1, "kv_transfer_params": REMOTE_DECODE}
    _, answer = await post(http, prefill, leg, path)
    await prefill.crash()
    body = {**prompt, "stream": True, "kv_transfer_params": answer["kv_transfer_params"]}
    async with http.post(decode.url + path, json=body) as response:
        text = await response.read()
    *opening, error, done, end = text.split(b"\n\n")
    assert (response.status, response.content_type) == (200, "text/event-stream")
    assert [json.loads(event[6:])["choices"][0]["delta"]["role"] for event in opening] == ["assistant"] * (
        kind == "chat"
    )
    assert error == (
        b'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, '
        b'"code": 500}}'
    )
    assert (done, end) == (b"data: [DONE]", b"")
    assert (decode.kv.failed, decode.core.running, decode.core.cache.used) == (1, 0, 0)


async def test_a_prefill_engine_that_dies_during_the_transfer(pair, http):
    prefill, decode = await pair("vllm", timing=Timing(transfer_speed=0.1))
    handle = await vllm_handle(http, prefill)
    leg = asyncio.create_task(post(http, decode, {**CHAT, "kv_transfer_params": handle}))
    while decode.core.running == 0:
        await asyncio.sleep(0.005)
    await prefill.crash()
    status, _ = await leg
    assert (status, decode.core.running) == (500, 0)


async def test_a_transfer_takes_its_time(pair, http):
    """98 tokens at 98 tokens a second, five times as fast."""
    prefill, decode = await pair(
        "vllm", speed=5.0, timing=Timing(prefill_speed=1e6, decode_speed=1e6, transfer_speed=98)
    )
    handle = await vllm_handle(http, prefill)
    begin = time.perf_counter()
    await post(http, decode, {**CHAT, "kv_transfer_params": handle})
    assert 0.2 <= time.perf_counter() - begin < 2.0


async def test_a_handle_expires(pair, http):
    prefill, decode = await pair("vllm", lease_seconds=0.05)
    handle = await vllm_handle(http, prefill)
    while prefill.kv.expired == 0:
        await asyncio.sleep(0.005)
    assert (prefill.core.kept, prefill.core.cache.used) == (0, 0)
    status, answer = await post(http, decode, {**CHAT, "kv_transfer_params": handle})
    assert (status, "is expired" in message(answer)) == (500, True)


async def test_the_kv_cache_of_another_prompt_is_noticed(pair, http):
    prefill, decode = await pair("vllm")
    handle = await vllm_handle(http, prefill, {**CHAT, "messages": [{"role": "user", "content": "another"}]})
    status, answer = await post(http, decode, {**CHAT, "kv_transfer_params": handle})
    assert (status, message(answer)) == (500, "The KV cache belongs to another prompt.")
    assert (decode.kv.mismatches, decode.kv.received, decode.core.cache.used) == (1, 0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote_block_ids", [[1, 2]]),
        ("remote_blocks_expiry_time", 1.0),
        ("remote_engine_id", "the one before the restart"),
        ("remote_request_id", "77"),
    ],
)
async def test_a_handle_must_come_back_unchanged(pair, http, name, value):
    prefill, decode = await pair("vllm")
    handle = await vllm_handle(http, prefill)
    status, _ = await post(http, decode, {**CHAT, "kv_transfer_params": {**handle, name: value}})
    assert (status, decode.kv.failed) == (500, 1)


@pytest.mark.parametrize(
    ("role", "params"),
    [
        ("prefill", {"do_remote_prefill": True}),
        ("decode", REMOTE_DECODE),
        ("decode", {"do_remote_prefill": True, "remote_host": "127.0.0.1"}),
        ("decode", {"do_remote_prefill": True, "do_remote_decode": True}),
        ("prefill", [1]),
    ],
)
async def test_a_handshake_that_makes_no_sense_is_refused(start, http, role, params):
    engine = await start(dialect="vllm", role=role)
    status, answer = await post(http, engine, {**CHAT, "kv_transfer_params": params})
    assert (status, answer["error"]["param"], engine.kv.refused) == (400, "kv_transfer_params", 1)


async def test_several_prompts_have_no_handle(start, http):
    engine = await start(dialect="vllm", role="prefill")
    body = {"prompt": ["a", "b"], "max_tokens": 1, "kv_transfer_params": REMOTE_DECODE}
    status, _ = await post(http, engine, body, "/v1/completions")
    assert status == 400


async def test_who_reaches_its_natural_end_leaves_no_handle(start, http):
    engine = await start(dialect="vllm", role="prefill")
    body = {"messages": CHAT["messages"], "kv_transfer_params": REMOTE_DECODE}
    status, answer = await post(http, engine, body)
    assert (status, "kv_transfer_params" in answer) == (200, False)
    assert (engine.kv_held, engine.core.kept, engine.core.cache.used) == (0, 0, 0)


async def test_a_client_that_leaves_during_the_transfer_leaves_nothing_behind(pair, http):
    """The prefill engine then waits for another decode engine until the lease is over."""
    prefill, decode = await pair("vllm", lease_seconds=0.3, timing=Timing(transfer_speed=0.1))
    handle = await vllm_handle(http, prefill)
    leg = asyncio.create_task(post(http, decode, {**CHAT, "kv_transfer_params": handle}))
    while decode.core.running == 0:
        await asyncio.sleep(0.005)
    leg.cancel()
    while decode.core.running or prefill.kv_held:
        await asyncio.sleep(0.005)
    assert (prefill.kv.expired, decode.core.cache.used, prefill.core.cache.used) == (1, 0, 0)


async def test_an_abort_during_the_transfer_ends_the_answer(pair, http):
    prefill, decode = await pair("vllm", timing=Timing(transfer_speed=0.1))
    handle = await vllm_handle(http, prefill)
    leg = asyncio.create_task(post(http, decode, {**CHAT, "kv_transfer_params": handle}))
    while decode.core.running == 0:
        await asyncio.sleep(0.005)
    await post(http, decode, {"abort_all": True}, "/v1/abort_requests")
    status, answer = await leg
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "abort")
    assert (decode.kv.received, decode.core.running) == (0, 0)
