"""The simulated engine over loopback: the OpenAI API, the control paths, and the ways to fail."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import pytest
from aiohttp import web

from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing

CHAT = {"messages": [{"role": "user", "content": "Tell me something. " * 20}], "max_tokens": 24}
ENDLESS = {**CHAT, "max_tokens": 20_000, "stream": True}


async def post(http: aiohttp.ClientSession, engine: RunningEngine, path: str, body: object) -> tuple[int, object]:
    async with http.post(engine.url + path, json=body) as response:
        return response.status, await response.json()


async def eventually(what, seconds: float = 5.0) -> None:
    """Wait for a condition; the test's own patience, not a behaviour."""
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.005)


def events(text: str) -> list[object]:
    """The decoded events of an SSE body, which must end with [DONE]."""
    *data, done = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(event) for event in data]


async def test_chat_answers_with_usage(start, http):
    engine = await start()
    status, answer = await post(http, engine, "/v1/chat/completions", CHAT)
    assert status == 200
    choice = answer["choices"][0]
    assert (answer["object"], answer["model"]) == ("chat.completion", "simulated")
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"]) == 24 * 4
    assert answer["usage"] == {
        "prompt_tokens": 98,
        "completion_tokens": 24,
        "total_tokens": 122,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_the_same_prompt_gets_the_same_answer_and_hits_the_cache(start, http):
    engine = await start()
    _, first = await post(http, engine, "/v1/chat/completions", CHAT)
    _, again = await post(http, engine, "/v1/chat/completions", CHAT)
    assert first["choices"] == again["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 96


async def test_the_next_turn_finds_prompt_and_answer_cached(start, http):
    engine = await start()
    _, first = await post(http, engine, "/v1/chat/completions", CHAT)
    messages = [*CHAT["messages"], first["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    _, second = await post(http, engine, "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == (98 + 24 - 1) // 16 * 16


async def test_a_stream_says_the_same_as_a_whole_answer(start, http):
    """One chunk for the role, then one a token; the last one has the reason."""
    engine = await start()
    _, whole = await post(http, engine, "/v1/chat/completions", CHAT)
    async with http.post(engine.url + "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        assert response.content_type == "text/event-stream"
        chunks = events(await response.text())
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta["content"] for delta in deltas) == whole["choices"][0]["message"]["content"]
    assert reasons == [None] * 24 + ["length"]
    assert not any("usage" in chunk for chunk in chunks)


async def test_a_stream_interval_makes_fewer_chunks_of_the_same_answer(start, http):
    """The first token at once, then ten at a time; a machine that is busy may have more to say by then."""
    engine = await start(stream_interval=10, timing=Timing(decode_speed=5.0))
    _, whole = await post(http, engine, "/v1/chat/completions", CHAT)
    async with http.post(engine.url + "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        chunks = events(await response.text())
    texts = [chunk["choices"][0]["delta"]["content"] for chunk in chunks]
    assert "".join(texts) == whole["choices"][0]["message"]["content"]
    assert 4 <= len(texts[1]) < 4 * 10
    assert len(texts) <= 2 + 3
    assert all(len(text) >= 4 * 10 for text in texts[2:-1])
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "length"


async def test_usage_comes_in_a_stream_when_asked_for(start, http):
    engine = await start()
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with http.post(engine.url + "/v1/chat/completions", json=body) as response:
        last = events(await response.text())[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 24


@pytest.mark.parametrize(
    ("prompt", "tokens", "choices"),
    [("eight ch", 2, 1), (["eight ch", "four"], 3, 2), ([1, 2, 3], 3, 1), ([[1, 2], [3]], 3, 2)],
)
async def test_completions_take_every_form_of_prompt(start, http, prompt, tokens, choices):
    engine = await start()
    body = {"prompt": prompt, "max_tokens": 2}
    status, answer = await post(http, engine, "/v1/completions", body)
    assert status == 200
    assert answer["usage"]["prompt_tokens"] == tokens
    assert [len(choice["text"]) for choice in answer["choices"]] == [8] * choices
    async with http.post(engine.url + "/v1/completions", json={**body, "stream": True}) as response:
        chunks = events(await response.text())
    for index in range(choices):
        texts = [c["choices"][0]["text"] for c in chunks if c["choices"][0]["index"] == index]
        assert "".join(texts) == answer["choices"][index]["text"]


async def test_token_ids_are_the_same_prompt_as_their_text(start, http):
    engine = await start()
    text = "The same words, once as text and once as numbers. " * 4
    status, tokens = await post(http, engine, "/tokenize", {"prompt": text})
    assert (status, tokens["count"]) == (200, 50)
    assert tokens["input_ids"] == tokens["tokens"]
    await post(http, engine, "/v1/completions", {"prompt": text, "max_tokens": 1})
    _, answer = await post(http, engine, "/v1/completions", {"prompt": tokens["tokens"], "max_tokens": 1})
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 48


async def test_limits_of_the_answer(start, http):
    """max_completion_tokens wins over max_tokens; without either the answer ends by itself."""
    engine = await start(speed=1000.0)
    _, answer = await post(http, engine, "/v1/chat/completions", {**CHAT, "max_completion_tokens": 3})
    assert answer["usage"]["completion_tokens"] == 3
    _, answer = await post(http, engine, "/v1/chat/completions", {**CHAT, "max_tokens": None})
    assert (answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]) == ("stop", 128)


MESSAGES = CHAT["messages"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b"\xff", None),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": MESSAGES, "model": 1}, "model"),
        ({"messages": MESSAGES, "stream": "yes"}, "stream"),
        ({"messages": MESSAGES, "max_tokens": 0}, "max_tokens"),
        ({"messages": MESSAGES, "max_tokens": True}, "max_tokens"),
        ({"messages": MESSAGES, "max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"messages": MESSAGES, "n": 2}, "n"),
        ({"messages": MESSAGES, "stream_options": []}, "stream_options"),
        ({"messages": MESSAGES, "max_tokens": 10**9}, None),
    ],
)
async def test_bad_chats_are_refused(start, http, body, param):
    engine = await start()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with http.post(engine.url + "/v1/chat/completions", data=data) as response:
        answer = await response.json()
    assert response.status == 400
    assert answer["error"]["param"] == param
    assert answer["error"]["type"] == "BadRequestError"
    assert engine.core.running == 0


@pytest.mark.parametrize("prompt", [None, "", [], [""], [-1], [2**32], [True], [[]], ["a", 1], {}])
async def test_bad_prompts_are_refused(start, http, prompt):
    engine = await start()
    status, answer = await post(http, engine, "/v1/completions", {"prompt": prompt})
    assert (status, answer["error"]["param"]) == (400, "prompt")


async def test_models(start, http):
    """The engine answers for its own model and for `default`; another one is unknown."""
    engine = await start(model="mine", cache_tokens=1000)
    async with http.get(engine.url + "/v1/models") as response:
        [listed] = (await response.json())["data"]
    assert (listed["id"], listed["max_model_len"]) == ("mine", 992)
    for model, expected in (("mine", 200), ("default", 200), ("other", 404)):
        status, _ = await post(http, engine, "/v1/chat/completions", {**CHAT, "model": model})
        assert status == expected


async def test_unknown_paths_and_methods(start, http):
    engine = await start()
    for method, path, expected in (("GET", "/nope", 404), ("GET", "/v1/chat/completions", 405)):
        async with http.request(method, engine.url + path) as response:
            assert response.status == expected
            assert (await response.json())["error"]["code"] == expected


async def test_embeddings_depend_on_the_input_alone(start, http):
    engine = await start()
    _, answer = await post(http, engine, "/v1/embeddings", {"input": ["one", "two", "one"]})
    vectors = [item["embedding"] for item in answer["data"]]
    assert vectors[0] == vectors[2] != vectors[1]
    assert answer["usage"]["prompt_tokens"] == 3


async def test_requests_wait_when_enough_run(start, http):
    engine = await start(max_running=2)
    requests = [asyncio.create_task(http.post(engine.url + "/v1/chat/completions", json=ENDLESS)) for _ in range(3)]
    await eventually(lambda: (engine.core.running, len(engine.core.waiting)) == (2, 1))
    (await requests[0]).close()
    await eventually(lambda: (engine.core.running, len(engine.core.waiting)) == (2, 0))
    for request in requests[1:]:
        (await request).close()
    await eventually(lambda: engine.core.running == 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_place(start, http, stream):
    engine = await start()
    request = asyncio.create_task(http.post(engine.url + "/v1/chat/completions", json={**ENDLESS, "stream": stream}))
    await eventually(lambda: engine.core.running == 1)
    if stream:
        (await request).close()
    else:
        request.cancel()
    await eventually(lambda: engine.core.running == 0)
    assert engine.core.finished_total == {"abort": 1}
    assert engine.core.cache.used == 0


async def test_a_client_that_leaves_between_two_writes_is_no_error(start, http, caplog, monkeypatch):
    """The event loop may tell of it through the write that fails, before it tells of the connection."""
    engine = await start()

    async def fail(_response: web.StreamResponse, _data: bytes) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "write", fail)
    async with http.post(engine.url + "/v1/chat/completions", json=ENDLESS) as response:
        await response.read()
    await eventually(lambda: engine.core.running == 0)
    assert [record.getMessage() for record in caplog.records if record.name == "aiohttp.server"] == []


async def test_abort_ends_a_request_with_what_it_has(start, http):
    engine = await start()
    headers = {"x-request-id": "r1"}
    request = asyncio.create_task(http.post(engine.url + "/v1/chat/completions", json=ENDLESS, headers=headers))
    await eventually(lambda: engine.core.generated_tokens_total > 5)
    status, answer = await post(http, engine, "/v1/abort_requests", {"req_ids": ["chatcmpl-r1", "r2"]})
    assert (status, answer["status"], answer["error_message"]) == (200, "success", None)
    [aborted] = answer["result"]["aborted"]
    assert aborted["request_id"] == "chatcmpl-r1"
    assert aborted["output_token_count"] > 5
    assert answer["result"]["not_found"] == ["r2"]
    async with await request as response:
        chunks = events(await response.text())
    assert chunks[-1]["choices"][0]["finish_reason"] == "abort"
    words = [chunk for chunk in chunks if chunk["choices"][0]["delta"]["content"]]
    assert len(words) == aborted["output_token_count"]


async def test_abort_all_and_nothing(start, http):
    engine = await start()
    request = asyncio.create_task(http.post(engine.url + "/v1/chat/completions", json={**ENDLESS, "stream": False}))
    await eventually(lambda: engine.core.running == 1)
    assert (await post(http, engine, "/v1/abort_requests", {}))[0] == 400
    _, answer = await post(http, engine, "/v1/abort_requests", {"abort_all": True})
    assert len(answer["result"]["aborted"]) == 1
    async with await request as response:
        assert (await response.json())["choices"][0]["finish_reason"] == "abort"


async def test_pause_refuses_new_work_only(start, http):
    engine = await start()
    request = asyncio.create_task(post(http, engine, "/v1/chat/completions", {**CHAT, "max_tokens": 200}))
    await eventually(lambda: engine.core.running == 1)
    engine.pause()
    assert (await post(http, engine, "/v1/chat/completions", CHAT))[0] == 503
    assert (await request)[0] == 200
    engine.resume()
    assert (await post(http, engine, "/v1/chat/completions", CHAT))[0] == 200


async def test_a_frozen_engine_is_silent_and_goes_on_when_thawed(start, http):
    engine = await start()
    async with http.post(
        engine.url + "/v1/chat/completions", json={**CHAT, "max_tokens": 400, "stream": True}
    ) as answer:
        await answer.content.readany()
        engine.freeze()
        with pytest.raises(TimeoutError):
            async with http.get(engine.url + "/health", timeout=aiohttp.ClientTimeout(total=0.1)):
                pass
        frozen_at = engine.core.generated_tokens_total
        await asyncio.sleep(0.05)
        assert engine.core.generated_tokens_total == frozen_at
        engine.thaw()
        assert b"[DONE]" in await answer.content.read()
    assert engine.core.generated_tokens_total == 400


async def test_a_crash_resets_everything(start, http):
    engine = await start()
    async with http.post(engine.url + "/v1/chat/completions", json=ENDLESS) as answer:
        await answer.content.readany()
        await engine.crash()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()
    with pytest.raises(aiohttp.ClientConnectorError):
        await http.get(engine.url + "/health")


async def test_health_can_be_set(start, http):
    engine = await start()
    for healthy, expected in ((True, 200), (False, 503)):
        engine.set_health(healthy)
        async with http.get(engine.url + "/health") as response:
            assert response.status == expected


async def test_stop_ends_streams_in_order(start, http):
    engine = await start()
    async with http.post(engine.url + "/v1/chat/completions", json=ENDLESS) as answer:
        first = await answer.content.readany()
        await engine.stop()
        chunks = events((first + await answer.content.read()).decode())
    assert chunks[-1]["choices"][0]["finish_reason"] == "abort"


async def test_a_taken_port_is_an_error(start):
    engine = await start()
    with pytest.raises(OSError, match="in use"):
        await start_engine(EngineSettings(port=engine.port))


async def test_time_can_run_faster(start, http):
    """Two seconds of prefill take at most a fraction of one."""
    engine = await start(timing=Timing(prefill_speed=49), speed=200.0)
    started = asyncio.get_running_loop().time()
    await post(http, engine, "/v1/chat/completions", CHAT)
    assert asyncio.get_running_loop().time() - started >= 2.0 / 200
    assert asyncio.get_running_loop().time() - started < 1.0


async def test_it_registers_and_says_when_it_is_paused(start):
    """FastDeploy's registration, again and again; a router that refuses is asked again."""
    beats: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    statuses = iter([503])

    async def register(request: web.Request) -> web.Response:
        beats.put_nowait(await request.json())
        return web.Response(status=next(statuses, 200))

    app = web.Application()
    app.router.add_post("/register", register)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    try:
        router = f"127.0.0.1:{listener.getsockname()[1]}"
        engine = await start(router=router, role="prefill", heartbeat_seconds=0.01)
        async with asyncio.timeout(5):
            first, second = await beats.get(), await beats.get()
            assert first == second
            assert (first["role"], first["host_ip"], first["port"]) == ("prefill", "127.0.0.1", engine.port)
            assert first["connector_port"] == engine.meeting_port != engine.port
            assert first["is_paused"] is False
            engine.pause()
            while not (await beats.get())["is_paused"]:
                pass
            engine.set_health(False)
            await asyncio.sleep(0.05)
            while not beats.empty():
                beats.get_nowait()
            await asyncio.sleep(0.05)
            assert beats.empty()
    finally:
        await runner.cleanup()
