"""Why a request went where it went: asked for by header or by option, told in a header and at /admin/decisions."""

import json

import pytest
from tests.support.http_client import ask, post
from tests.support.router import assert_nothing_held, config, router_over, running
from tests.support.scripted_worker import answering, response, then_closing

from warmroute.config.tree import SecurityConfig, TelemetryConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = (b"x-warmroute-explain", b"1")
SECRET = b'{"model":"m","prompt":"a secret"}'


async def decisions(router, *headers: bytes):
    lines = b"".join(header + b"\r\n" for header in headers)
    request = b"GET /admin/decisions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%b\r\n" % lines
    return await ask(router.port, request)


async def test_a_request_that_asks_is_told_and_kept_and_the_worker_hears_nothing_of_it(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with router_over(lone_worker) as router:
        asked = await ask(router.port, post(body=SECRET, headers=[ASK, (b"x-request-id", b"mine")]))
        unasked = await ask(router.port, post(body=SECRET))
        await assert_nothing_held(router)
        answer = await decisions(router)
    worker_id = f"127.0.0.1:{lone_worker.port}"
    told = json.loads(asked.value(b"x-warmroute-decision"))
    (choice,) = told["choices"]
    assert (choice["role"], choice["policy"], choice["worker"]) == ("mixed", "least_delay", worker_id)
    assert choice["rows"][0]["worker"] == worker_id
    assert unasked.values(b"x-warmroute-decision") == []
    assert not any(request.values(b"x-warmroute-explain") for request in lone_worker.requests)
    (kept,) = json.loads(answer.body)["decisions"]
    assert (kept["request_id"], kept["outcome"], kept["status"]) == ("mine", "served", 200)
    assert kept["choices"][0]["rows"][0]["score"] is not None
    assert kept["duration_seconds"] >= kept["ttft_seconds"] >= 0
    assert b"secret" not in answer.body


async def test_with_the_option_every_request_is_explained_and_a_failover_is_two_choices(pair):
    broken, sound = pair
    broken.script, sound.script = then_closing(b""), answering(response(b"{}"))
    settings = config(broken.url, sound.url, scheduler={"policy": "round_robin"})
    async with running(settings.model_copy(update={"telemetry": TelemetryConfig(explain=True, decisions_kept=3)})) as r:
        answers = [await ask(r.port, post()) for _ in range(6)]
        await assert_nothing_held(r)
        kept = json.loads((await decisions(r)).body)["decisions"]
    assert all(answer.values(b"x-warmroute-decision") for answer in answers)
    assert len(kept) == 3
    made = [json.loads(answer.value(b"x-warmroute-decision"))["choices"] for answer in answers]
    second_thoughts = next(choices for choices in made if len(choices) == 2)
    assert [choice["worker"] for choice in second_thoughts] == [
        f"127.0.0.1:{broken.port}",
        f"127.0.0.1:{sound.port}",
    ]
    assert second_thoughts[1]["candidates"] == 1


async def test_with_admin_keys_only_who_has_one_is_told(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    settings = config(lone_worker.url).model_copy(update={"security": SecurityConfig(admin_key=("k1",))})
    async with running(settings) as router:
        key = (b"x-warmroute-admin-key", b"k1")
        wrong = (b"x-warmroute-admin-key", b"k2")
        told = [await ask(router.port, post(headers=headers)) for headers in ([ASK, key], [ASK, wrong], [ASK], [key])]
        values = [answer.values(b"x-warmroute-decision") for answer in told]
        assert json.loads(values[0][0])["choices"]
        assert [list(json.loads(value[0])) for value in values[1:3]] == [["error"], ["error"]]
        assert values[3] == []
        assert {answer.status for answer in told} == {200}
        assert not any(request.values(b"x-warmroute-admin-key") for request in lone_worker.requests)
        assert (await decisions(router)).status == 401
        seen = await decisions(router, b"Authorization: Bearer k1")
        assert len(json.loads(seen.body)["decisions"]) == 1


async def test_the_routers_own_answers_tell_too(lone_worker):
    lone_worker.script = then_closing(b"")
    async with router_over(lone_worker) as router:
        answer = await ask(router.port, post(headers=[ASK]))
        refused = await ask(router.port, post(body=b"no json", headers=[ASK]))
        kept = json.loads((await decisions(router)).body)["decisions"]
    assert answer.status >= 500
    assert json.loads(answer.value(b"x-warmroute-decision"))["choices"]
    assert (kept[0]["outcome"], kept[0]["status"]) == ("failed", answer.status)
    assert (refused.status, refused.values(b"x-warmroute-decision")) == (400, [])
