"""Rooms over loopback: one body for both engines, at once."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.pd.legs import CHAT, message, post, sglang_body, text_of

MAX_ROOM = 2**63 - 1


async def both(http, prefill, decode, body, path="/v1/chat/completions"):
    return await asyncio.gather(post(http, prefill, body, path), post(http, decode, body, path))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_pair_answers_like_one_engine(pair, start, http, stream):
    prefill, decode = await pair("sglang")
    alone = await start()
    first, second = await both(http, prefill, decode, sglang_body(prefill, MAX_ROOM, stream=stream))
    _, expected = await post(http, alone, {**CHAT, "stream": stream})
    assert (first[0], second[0], text_of(second[1])) == (200, 200, text_of(expected))
    assert text_of(expected).startswith(text_of(first[1]))
    assert (prefill.kv.sent, decode.kv.received, decode.kv.mismatches) == (1, 1, 0)
    assert (prefill.core.cache.used, decode.core.cache.used) == (0, 0)


@pytest.mark.parametrize("first", ["prefill", "decode"])
async def test_either_may_come_first(pair, http, first):
    prefill, decode = await pair("sglang")
    order = {"prefill": (prefill, decode), "decode": (decode, prefill)}[first]
    early = asyncio.create_task(post(http, order[0], sglang_body(prefill, 1)))
    await asyncio.sleep(0.05)
    assert not early.done()
    status, _ = await post(http, order[1], sglang_body(prefill, 1))
    assert (status, (await early)[0], decode.kv.received) == (200, 200, 1)


async def test_a_batch_takes_a_room_for_each_prompt(pair, start, http):
    prefill, decode = await pair("sglang")
    body = {"prompt": ["one prompt " * 9, "another prompt " * 9], "max_tokens": 5}
    meeting = {
        "bootstrap_host": ["127.0.0.1"] * 2,
        "bootstrap_port": [prefill.meeting_port] * 2,
        "bootstrap_room": [11, 7],
    }
    _, (status, answer) = await both(http, prefill, decode, {**body, **meeting}, "/v1/completions")
    _, expected = await post(http, await start(), body, "/v1/completions")
    assert (status, answer["choices"]) == (200, expected["choices"])
    assert (decode.kv.received, prefill.kv.sent) == (2, 2)


async def test_the_prompts_of_one_room_are_counted_on(pair, http):
    prefill, decode = await pair("sglang")
    body = {**sglang_body(prefill, 100), "prompt": ["one", "two", "three"], "max_tokens": 2}
    _, (status, _) = await both(http, prefill, decode, body, "/v1/completions")
    assert (status, decode.kv.received) == (200, 3)


async def test_a_room_can_be_used_once_only(pair, http):
    prefill, decode = await pair("sglang")
    body = sglang_body(prefill, 5)
    await both(http, prefill, decode, body)
    first, second = await both(http, prefill, decode, body)
    assert (first[0], second[0]) == (400, 400)
    assert (prefill.kv.refused, decode.kv.refused, decode.kv.received) == (1, 1, 1)


async def test_a_decode_engine_whose_prefill_never_comes_gives_up(pair, http):
    prefill, decode = await pair("sglang", handover_seconds=0.1)
    status, answer = await post(http, decode, sglang_body(prefill, 5))
    assert (status, "'5' is unknown" in message(answer)) == (500, True)
    assert (decode.kv.failed, decode.core.cache.used) == (1, 0)


async def test_a_prefill_engine_whose_decode_never_comes_gives_up(pair, http):
    prefill, _ = await pair("sglang", lease_seconds=0.1)
    status, answer = await post(http, prefill, sglang_body(prefill, 5))
    assert (status, message(answer)) == (500, "No decode engine came to room 5.")
    assert (prefill.kv.expired, prefill.core.cache.used) == (1, 0)


async def test_a_prefill_leg_that_is_closed_ends_the_wait_of_its_decode(pair, http):
    """And frees the prefill engine at once, lease or not."""
    prefill, decode = await pair("sglang", cache_tokens=1600)
    big = {"messages": [{"role": "user", "content": "x" * 6000}], "max_tokens": 90}
    _, other = asyncio.create_task(post(http, prefill, sglang_body(prefill, 1))), prefill
    while other.kv_held == 0:
        await asyncio.sleep(0.005)
    legs = [asyncio.create_task(post(http, engine, sglang_body(prefill, 2, **big))) for engine in (prefill, decode)]
    while decode.core.running == 0 or prefill.kv_held < 2:
        await asyncio.sleep(0.005)
    legs[0].cancel()
    status, answer = await asyncio.wait_for(legs[1], 5.0)
    assert (status, "withdrawn" in message(answer)) == (500, True)
    assert (prefill.kv.withdrawn, prefill.kv_held, decode.core.running) == (1, 1, 0)


async def test_a_dead_prefill_engine_fails_its_decode(pair, http):
    prefill, decode = await pair("sglang")
    await prefill.crash()
    status, _ = await post(http, decode, sglang_body(prefill, 5))
    assert (status, decode.kv.failed) == (500, 1)


async def test_a_prefill_engine_that_dies_fails_the_decode_that_waits(pair, http):
    prefill, decode = await pair("sglang")
    leg = asyncio.create_task(post(http, decode, sglang_body(prefill, 5)))
    while decode.core.running == 0:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    await prefill.crash()
    assert (await asyncio.wait_for(leg, 5.0))[0] == 500


async def test_different_prompts_in_one_room_are_noticed(pair, http):
    prefill, decode = await pair("sglang")
    other = {"messages": [{"role": "user", "content": "another"}]}
    _, (status, _) = await asyncio.gather(
        post(http, prefill, sglang_body(prefill, 5, **other)), post(http, decode, sglang_body(prefill, 5))
    )
    assert (status, decode.kv.mismatches) == (500, 1)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"bootstrap_room": None}, "bootstrap_room"),
        ({"bootstrap_room": 2**63}, "bootstrap_room"),
        ({"bootstrap_room": "5"}, "bootstrap_room"),
        ({"bootstrap_room": [5, 6]}, "bootstrap_room"),
        ({"bootstrap_port": 0}, "bootstrap_port"),
        ({"bootstrap_port": 2.5}, "bootstrap_port"),
        ({"bootstrap_host": None}, "bootstrap_host"),
    ],
)
@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_handshake_that_makes_no_sense_is_refused(pair, http, role, changes, param):
    prefill, decode = await pair("sglang")
    engine = prefill if role == "prefill" else decode
    status, answer = await post(http, engine, sglang_body(prefill, 5, **changes))
    assert (status, answer["error"]["param"], engine.kv.refused) == (400, param, 1)


async def test_the_bootstrap_port_of_another_engine_is_refused(pair, http):
    prefill, _ = await pair("sglang")
    status, answer = await post(http, prefill, sglang_body(prefill, 5, bootstrap_port=prefill.port))
    assert (status, answer["error"]["param"]) == (400, "bootstrap_port")


async def test_the_log_probabilities_of_the_prompt_are_the_prefill_engines(pair, start, http):
    """Put before the decode engine's, which has none, they are those of a single engine."""
    prefill, decode = await pair("sglang")
    body = {"text": "some text " * 10, "sampling_params": {"max_new_tokens": 4}}
    body |= {"return_logprob": True, "logprob_start_len": 0}
    meeting = {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.meeting_port, "bootstrap_room": 3}
    (_, first), (_, second) = await both(http, prefill, decode, {**body, **meeting}, "/generate")
    _, alone = await post(http, await start(dialect="sglang"), body, "/generate")
    assert first["meta_info"]["input_token_logprobs"] == alone["meta_info"]["input_token_logprobs"]
    assert second["meta_info"]["input_token_logprobs"] == []
    assert second["meta_info"]["output_token_logprobs"] == alone["meta_info"]["output_token_logprobs"]
    assert (second["text"], second["output_ids"]) == (alone["text"], alone["output_ids"])


async def test_native_batches_and_streams(start, http):
    engine = await start(dialect="sglang")
    body = {"text": ["one", "two"], "sampling_params": {"max_new_tokens": 3}}
    _, whole = await post(http, engine, body, "/generate")
    _, events = await post(http, engine, {**body, "stream": True}, "/generate")
    assert [len(answer["text"]) for answer in whole] == [12, 12]
    last = {event["index"]: event["text"] for event in events}
    assert [last[0], last[1]] == [answer["text"] for answer in whole]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 3}
