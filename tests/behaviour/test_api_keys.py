"""Who may send inference requests, and whose keys go where."""

import asyncio

import pytest
from tests.support.http_client import CHAT, Client, post
from tests.support.router import router_over
from tests.support.scripted_worker import Hanging, ScriptedWorker, answering, response

from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError

KEYS = {"api_key": ("sk-one", "sk-two")}


@pytest.fixture
async def worker():
    async with ScriptedWorker() as worker:
        yield worker


@pytest.mark.parametrize(
    "header",
    [(b"Authorization", b"Bearer sk-one"), (b"authorization", b"bearer sk-two"), (b"X-Api-Key", b"sk-one")],
)
async def test_a_key_lets_requests_in_and_stays_here(worker, header):
    async with router_over(worker, security=KEYS) as router, await Client.connect(router.port) as client:
        for _ in range(2):  # the second head is read from what the first one left
            assert (await client.ask(post(headers=[header, (b"X-Other", b"kept")]))).status == 200
    assert len(worker.requests) == 2
    for request in worker.requests:
        assert b"sk-" not in request.raw_head
        assert request.values(b"x-other") == [b"kept"]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ((), "An API key is required"),
        (((b"Authorization", b"Bearer sk-wrong"),), "Invalid API key"),
        (((b"Authorization", b"Basic sk-one"),), "An API key is required"),
        (((b"Authorization", b"Bearer sk-one"), (b"Authorization", b"Bearer no")), "Invalid API key"),
    ],
)
async def test_without_a_valid_key_no_worker_hears_of_a_request(worker, headers, says):
    async with router_over(worker, security=KEYS) as router, await Client.connect(router.port) as client:
        answer = await client.ask(post(headers=headers))
        assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
        assert answer.value(b"www-authenticate") == b"Bearer"
        assert says in answer.error["message"]
        assert b"sk-" not in answer.raw_head + answer.body
    assert not worker.requests


async def test_a_body_without_a_key_is_not_waited_for(worker):
    async with router_over(worker, security=KEYS) as router, await Client.connect(router.port) as client:
        await client.send(b"POST %b HTTP/1.1\r\nHost: r\r\nContent-Length: 1000\r\n\r\n" % CHAT.encode())
        assert (await client.read_response()).status == 401


async def test_without_keys_of_the_router_a_clients_credentials_reach_the_worker(worker):
    headers = [(b"Authorization", b"Bearer theirs"), (b"x-api-key", b"theirs too")]
    async with router_over(worker) as router, await Client.connect(router.port) as client:
        assert (await client.ask(post(headers=headers))).status == 200
    (request,) = worker.requests
    assert request.values(b"authorization") == [b"Bearer theirs"]
    assert request.values(b"x-api-key") == [b"theirs too"]


async def test_a_key_that_has_had_its_requests_waits(worker):
    security = {**KEYS, "api_key_rate": 0.2, "api_key_burst": 2}
    one, two = ([(b"X-Api-Key", key)] for key in (b"sk-one", b"sk-two"))
    async with router_over(worker, security=security) as router, await Client.connect(router.port) as client:
        assert [(await client.ask(post(headers=one))).status for _ in range(2)] == [200, 200]
        answer = await client.ask(post(headers=one))
        assert (answer.status, answer.error["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(answer.value(b"retry-after")) <= 5
        assert b"sk-" not in answer.raw_head + answer.body
        assert (await client.ask(post(headers=two))).status == 200


async def test_what_a_key_has_running_ends_with_its_requests_however_they_end(worker):
    security = {**KEYS, "api_key_max_inflight": 1}
    headers = [(b"Authorization", b"Bearer sk-one")]
    async with router_over(worker, security=security) as router:
        worker.script = hanging = Hanging()
        async with await Client.connect(router.port) as leaver, await Client.connect(router.port) as client:
            await leaver.send(post(headers=headers))
            await asyncio.wait_for(hanging.started.wait(), 5)
            assert (await client.ask(post(headers=headers))).status == 429
            leaver.abort()
            await asyncio.wait_for(hanging.given_up.wait(), 5)
            worker.script = answering(response(b"{}", b"500 Internal Server Error"))
            assert (await client.ask(post(headers=headers))).status == 500
            assert (await client.ask(post(headers=headers, body=b"{"))).status == 400
            worker.script = answering(response())
            assert (await client.ask(post(headers=headers))).status == 200


def test_limits_without_keys_are_a_mistake():
    with pytest.raises(ConfigError, match="--api-key-rate needs api-key"):
        effective_config(["--port", "1", "--api-key-rate", "5"], {})


async def test_each_request_of_a_connection_needs_its_own_key(worker):
    """One that was let in opens nothing for those behind it, which a proxy may have got from somebody else."""
    good, x_good = [(b"Authorization", b"Bearer sk-one")], [(b"Authorization", b"B"), (b"X-Api-Key", b"sk-one")]
    tries = [
        (good, 200),
        (good, 200),
        ([(b"Authorization", b"Bearer sk-onf")], 401),
        (x_good, 200),
        (x_good, 200),
        ([(b"Authorization", b"B"), (b"X-Api-Key", b"sk-onf")], 401),
    ]
    async with router_over(worker, security=KEYS) as router:
        client = await Client.connect(router.port)
        for headers, status in tries:
            assert (await client.ask(post(headers=headers))).status == status
            if status == 401:
                client.abort()
                client = await Client.connect(router.port)
                assert (await client.ask(post(headers=x_good))).status == 200
        client.abort()
