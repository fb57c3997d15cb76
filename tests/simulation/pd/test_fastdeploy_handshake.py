"""`disaggregate_info` over loopback: one body for both engines, at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.pd.legs import CHAT, fastdeploy_body, message, post, text_of


async def both(http, prefill, decode, body, path="/v1/chat/completions"):
    return await asyncio.gather(post(http, prefill, body, path), post(http, decode, body, path))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_pair_answers_like_one_engine(pair, start, http, stream):
    prefill, decode = await pair("fastdeploy")
    alone = await start()
    first, second = await both(http, prefill, decode, fastdeploy_body(prefill, decode, "r", stream=stream))
    _, expected = await post(http, alone, {**CHAT, "stream": stream})
    assert (first[0], second[0], text_of(second[1])) == (200, 200, text_of(expected))
    assert len(text_of(first[1])) == 4
    assert (prefill.kv.sent, decode.kv.received, decode.kv.mismatches) == (1, 1, 0)
    assert (prefill.core.cache.used, decode.core.cache.used) == (0, 0)


async def test_prefill_answers_with_its_first_token_and_holds(pair, http):
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    status, _ = await post(http, prefill, body)
    assert (status, prefill.kv_held, prefill.core.kept) == (200, 1, 1)
    status, _ = await post(http, decode, body)
    assert (status, prefill.kv_held, prefill.core.kept) == (200, 0, 0)


async def test_decode_waits_for_its_prefill(pair, http):
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    early = asyncio.create_task(post(http, decode, body))
    await asyncio.sleep(0.05)
    assert not early.done()
    await post(http, prefill, body)
    assert (await early)[0] == 200


async def test_a_decode_engine_whose_prefill_never_happened_refuses(pair, http):
    prefill, decode = await pair("fastdeploy", handover_seconds=0.1)
    await post(http, prefill, fastdeploy_body(prefill, decode, "another id"))
    status, answer = await post(http, decode, fastdeploy_body(prefill, decode, "r"))
    assert (status, "'r_0' is unknown" in message(answer)) == (500, True)


async def test_a_dead_prefill_engine_fails_its_decode(pair, http):
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    await post(http, prefill, body)
    await prefill.crash()
    status, _ = await post(http, decode, body)
    assert (status, decode.kv.failed) == (500, 1)


async def test_a_hold_expires(pair, http):
    prefill, decode = await pair("fastdeploy", lease_seconds=0.05)
    await post(http, prefill, fastdeploy_body(prefill, decode, "r"))
    while prefill.kv.expired == 0:
        await asyncio.sleep(0.005)
    assert (prefill.kv_held, prefill.core.cache.used) == (0, 0)


async def test_an_id_may_come_again_but_not_while_it_is_in_use(pair, http):
    """Also when the decode engine is the first to hear of its second use."""
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    await both(http, prefill, decode, body)
    early = asyncio.create_task(post(http, decode, body))
    await asyncio.sleep(0.05)
    assert (await post(http, prefill, body))[0] == 200
    assert ((await early)[0], decode.kv.received) == (200, 2)
    await post(http, prefill, body)
    status, answer = await post(http, prefill, body)
    assert (status, message(answer)) == (400, "The handover 'r_0' was begun before.")


async def test_different_prompts_under_one_id_are_noticed(pair, http):
    prefill, decode = await pair("fastdeploy")
    other = {"messages": [{"role": "user", "content": "another"}]}
    await post(http, prefill, fastdeploy_body(prefill, decode, "r", **other))
    status, _ = await post(http, decode, fastdeploy_body(prefill, decode, "r"))
    assert (status, decode.kv.mismatches) == (500, 1)


async def test_both_must_have_been_told_the_same(pair, http):
    """The prefill engine cannot know the decode engine's devices, but it was told of them."""
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    told = {**body["disaggregate_info"], "decode_device_ids": ["0", "1"]}
    await post(http, prefill, {**body, "disaggregate_info": told})
    status, answer = await post(http, decode, body)
    assert (status, "other parameters" in message(answer)) == (500, True)


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [
        ("prefill", "prefill_connector_port", 1),
        ("prefill", "decode_tp_size", 2),
        ("decode", "decode_connector_port", 1),
        ("decode", "decode_device_ids", ["7"]),
        ("decode", "decode_rdma_ports", ["7"]),
        ("decode", "decode_tp_size", 2),
        ("decode", "decode_device_ids", [0]),
        ("decode", "decode_tp_size", "1"),
        ("decode", "transfer_protocol", "ipc"),
        ("prefill", "transfer_protocol", "tcp"),
        ("decode", "a ninth key", 1),
        ("decode", "prefill_ip", None),
    ],
)
async def test_what_cannot_be_right_is_refused(pair, http, role, name, value):
    prefill, decode = await pair("fastdeploy")
    engine = prefill if role == "prefill" else decode
    body = fastdeploy_body(prefill, decode, "r")
    body["disaggregate_info"][name] = value
    status, answer = await post(http, engine, body)
    assert (status, answer["error"]["param"], engine.kv.refused) == (400, "disaggregate_info", 1)


async def test_devices_and_rdma_ports_need_not_be_known(pair, http):
    """Of workers that did not register, a router knows neither."""
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    body["disaggregate_info"] |= {"decode_device_ids": [], "decode_rdma_ports": []}
    _, (status, _) = await both(http, prefill, decode, body)
    assert (status, decode.kv.received) == (200, 1)


async def test_ipc_and_two_ranks(pair, http):
    prefill, decode = await pair("fastdeploy", tp_size=2, transfer_protocol=("ipc", "rdma"))
    body = fastdeploy_body(prefill, decode, "r")
    ports = [str(decode.meeting_port)] * 2
    body["disaggregate_info"] |= {"decode_tp_size": 2, "decode_device_ids": ["0", "1"], "decode_rdma_ports": ports}
    body["disaggregate_info"]["transfer_protocol"] = "ipc"
    _, (status, _) = await both(http, prefill, decode, body)
    assert status == 200
    body["disaggregate_info"]["decode_ip"] = "127.0.0.2"
    assert (await post(http, prefill, body))[0] == 400


@pytest.mark.parametrize("missing", ["disaggregate_info", "request_id"])
async def test_without_a_handshake_nothing_is_served(pair, http, missing):
    prefill, decode = await pair("fastdeploy")
    body = fastdeploy_body(prefill, decode, "r")
    del body[missing]
    for engine in (prefill, decode):
        status, answer = await post(http, engine, body)
        assert (status, answer["error"]["param"]) == (400, missing)


@pytest.mark.parametrize("tokens", [0, 5])
async def test_a_request_is_given_back_and_gone_on_with(pair, start, http, tokens):
    """With the tokens so far, another pair gives the whole answer."""
    prefill, decode = await pair("fastdeploy")
    decode.give_back(after_tokens=tokens)
    _, (status, given) = await both(http, prefill, decode, fastdeploy_body(prefill, decode, "r"))
    choice = given["choices"][0]
    ids = choice["message"]["completion_token_ids"]
    assert (status, choice["finish_reason"], len(ids), decode.kv.given_back) == (200, "pd_reschedule", tokens, 1)
    again = fastdeploy_body(prefill, decode, "r-retry1", completion_token_ids=ids)
    _, (status, answer) = await both(http, prefill, decode, again)
    _, whole = await post(http, await start(), CHAT)
    assert (status, answer["choices"], answer["usage"]["completion_tokens"]) == (200, whole["choices"], 24)
    assert (decode.kv.received, decode.kv.mismatches, decode.core.cache.used) == (2, 0, 0)


async def test_a_request_can_be_given_back_again_and_again(pair, start, http):
    """Each time with the ids of its new tokens, which add up."""
    prefill, decode = await pair("fastdeploy")
    decode.give_back(after_tokens=5, count=3)
    ids: list[int] = []
    for attempt in range(4):
        body = fastdeploy_body(prefill, decode, f"r{attempt}", completion_token_ids=ids)
        _, (status, answer) = await both(http, prefill, decode, body)
        assert status == 200
        ids = ids + answer["choices"][0]["message"].get("completion_token_ids", [])
    _, whole = await post(http, await start(), CHAT)
    assert (len(ids), answer["choices"]) == (15, whole["choices"])


async def test_a_stream_is_given_back_before_its_first_token(pair, http):
    prefill, decode = await pair("fastdeploy")
    decode.give_back()
    _, (status, events) = await both(http, prefill, decode, fastdeploy_body(prefill, decode, "r", stream=True))
    assert (status, text_of(events)) == (200, "")
    assert events[-1]["choices"][0]["finish_reason"] == "pd_reschedule"


@pytest.mark.parametrize(("stream", "expected"), [(False, 500), (True, 200)])
async def test_a_pd_error(pair, http, stream, expected):
    prefill, decode = await pair("fastdeploy")
    decode.give_back(as_error=True)
    _, (status, answer) = await both(http, prefill, decode, fastdeploy_body(prefill, decode, "r", stream=stream))
    error = answer[0] if stream else answer
    assert (status, "PD Error" in message(error)) == (expected, True)
    assert (decode.core.running, decode.core.cache.used) == (0, 0)


@pytest.mark.parametrize("ids", [[1, 2, 3], "abc", [0] * 24])
async def test_tokens_that_are_not_the_begin_of_the_answer_are_refused(pair, http, ids):
    prefill, decode = await pair("fastdeploy")
    status, answer = await post(http, decode, fastdeploy_body(prefill, decode, "r", completion_token_ids=ids))
    assert (status, answer["error"]["param"]) == (400, "completion_token_ids")
