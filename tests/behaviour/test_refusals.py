"""What the router refuses itself: always an OpenAI-style object, and nothing reaches a worker."""

import json

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, ask, post
from tests.support.router import router_over

pytestmark = pytest.mark.asyncio(loop_scope="module")

RELAYED = [CHAT, COMPLETIONS, "/generate", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/rerank", "/tokenize"]
NO_JSON_OBJECTS = {
    "empty": b"",
    "white space": b" \r\n ",
    "text": b"hello",
    "cut off": b'{"model":"m","messages":[{"role":"us',
    "trailing comma": b'{"model":"m",}',
    "two objects": b"{}{}",
    "array": b"[]",
    "null": b"null",
    "string": b'"model"',
    "number": b"42",
    "NaN": b'{"temperature":NaN}',
    "control character": b'{"model":"a\nb"}',
    "UTF-16": '{"model":"m"}'.encode("utf-16"),
    "zeros": b"\x00" * 100,
    "deep array": b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and cut off": b"[" * 100_000,
    "lone surrogate": b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
}
WRONG_TYPES = [
    *((path, "model", value) for path in RELAYED for value in (1, True, ["m"], {"name": "m"})),
    *((path, "stream", value) for path in RELAYED for value in ("true", 1, 0, [], {})),
    *((path, "max_tokens", value) for path in (CHAT, COMPLETIONS) for value in ("1", 1.5, 0.1, True, [], {})),
    *((CHAT, "max_completion_tokens", value) for value in ("1", 1.5, False, [])),
    *((CHAT, "messages", value) for value in ("hi", 1, True, {"role": "user"})),
    *((COMPLETIONS, "prompt", value) for value in (1, True, {"text": "hi"})),
]


def assert_refused(answer, status, worker, param=None):
    assert answer.status == status
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] == param
    assert answer.values(b"x-request-id")
    assert not answer.values(b"x-router-worker-url")
    assert worker.requests == []


@pytest.mark.parametrize("body", NO_JSON_OBJECTS.values(), ids=NO_JSON_OBJECTS)
async def test_what_is_no_json_object_is_400(router, worker, body):
    for path in (CHAT, "/v1/embeddings"):
        answer = await ask(router.port, post(path, body))
        assert_refused(answer, 400, worker)
        assert answer.error["message"].startswith("Invalid JSON format")


async def test_every_wrong_type_is_400_and_names_the_field(router, worker):
    """One connection for all: a refused body leaves it usable."""
    async with await Client.connect(router.port) as client:
        for path, name, value in WRONG_TYPES:
            answer = await client.ask(post(path, {"model": "m", name: value}))
            assert_refused(answer, 400, worker, name)
            assert f"'{name}'" in answer.error["message"]
            assert "expected" in answer.error["message"]


async def test_odd_values_of_other_fields_are_the_engines_to_judge(router, worker):
    odd = [None, 1, -1, 1.5, True, "x", "", [], [1], {}, {"a": [None]}, 10**40]
    names = ["request_id", "session_id", "extra_body", "cache_salt", "tools", "user", "n", "documents", "stop"]
    async with await Client.connect(router.port) as client:
        for name in names:
            for value in odd:
                assert (await client.ask(post(body={"model": "m", name: value}))).status == 200
    assert len(worker.requests) == len(odd) * len(names)


@pytest.mark.parametrize("path", [CHAT, "/tokenize"])
async def test_a_body_over_the_limit_is_413(lone_worker, path):
    async with router_over(lone_worker, server={"max_body_bytes": 1000}) as router:
        at_limit = json.dumps({"model": "m", "x": ""}).encode()
        at_limit = at_limit.replace(b'""', b'"%b"' % (b"x" * (1000 - len(at_limit))))
        assert (await ask(router.port, post(path, at_limit))).status == 200
        lone_worker.requests.clear()
        answer = await ask(router.port, post(path, at_limit + b" "))
        assert_refused(answer, 413, lone_worker)
        assert "1000" in answer.error["message"]


async def test_a_chunked_body_over_the_limit_is_413(lone_worker):
    async with router_over(lone_worker, server={"max_body_bytes": 1000}) as router:
        async with await Client.connect(router.port) as client:
            await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            await client.send(b"400\r\n" + b" " * 1024 + b"\r\n")
            assert_refused(await client.read_response(), 413, lone_worker)


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(lone_worker):
    """The refusal arrives although the client is still sending, and the connection ends."""
    async with router_over(lone_worker, server={"max_body_bytes": 100_000}) as router:
        async with await Client.connect(router.port) as client:
            await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n")
            for _ in range(20):
                await client.send(b" " * 100_000)
            assert_refused(await client.read_response(), 413, lone_worker)
            client.end_sending()
            assert await client.read_to_end() == b""


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/generate", "/v1/embeddings"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_other_methods_on_inference_paths_are_405(router, worker, path, method):
    answer = await ask(router.port, f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert answer.status == 405
    assert answer.error
    assert worker.requests == []


async def test_head_on_an_inference_path_has_no_body(router, worker):
    async with await Client.connect(router.port) as client:
        await client.send(f"HEAD {CHAT} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert (await client.read_head()).status == 405
        await client.send(post())
        assert (await client.read_head()).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat", "/v1/chat/completions/", "/v1/nothing", "//v1/completions", "/%ff"]
)
async def test_unknown_paths_are_404(router, worker, path):
    answer = await ask(router.port, post(path))
    assert answer.status == 404
    assert answer.error
    assert worker.requests == []


async def test_an_unknown_model_is_the_engines_to_judge(router, worker):
    assert (await ask(router.port, post(body={"model": "nobody's"}))).status == 200


async def test_an_unknown_model_is_404_when_models_are_strict(lone_worker):
    async with router_over(lone_worker, scheduler={"strict_models": True}) as router:
        answer = await ask(router.port, post(body={"model": "nobody's"}))
        assert answer.status == 404
        assert answer.error["code"] == "model_not_found"
        assert answer.error["param"] == "model"
        assert lone_worker.requests == []
        assert (await ask(router.port, post(body={"model": "m"}))).status == 200
        assert (await ask(router.port, post(body={}))).status == 200
