"""What a request holds while it runs, what it gives back when, and what is counted and logged of it."""

import asyncio
import logging
import random
import re

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, ask, post
from tests.support.router import assert_nothing_held, eventually, router_over
from tests.support.scripted_worker import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Hanging,
    answering,
    chunk,
    response,
    streaming,
    then_closing,
    then_resetting,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = post(COMPLETIONS, {"model": "m", "prompt": "x" * 4000, "stream": True})
TOKENS = 1000


def the_load(router, worker):
    """(running requests, pending prefill tokens) of a worker."""
    (load,) = [known.load for known in router.ledger.workers() if known.url == worker.url]
    return load.running_requests, load.pending_prefill_tokens


async def samples(router):
    """The samples of /metrics: name with labels -> value."""
    answer = await ask(router.port, b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    lines = (line for line in answer.body.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_the_first_byte_gives_the_prefill_back_and_the_last_one_the_rest(router, worker):
    steps = [asyncio.Event() for _ in range(3)]

    async def script(_request, connection):
        for step, data in zip(steps, (SSE_HEAD, chunk(b"data: 1\n\n"), chunk(DONE) + LAST_CHUNK), strict=True):
            await step.wait()
            await connection.send(data)

    worker.script = script
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        await eventually(lambda: the_load(router, worker) == (1, TOKENS), "the request is counted")
        steps[0].set()
        await asyncio.sleep(0.02)
        assert the_load(router, worker) == (1, TOKENS)
        steps[1].set()
        await client.read_head()
        await client.read_chunk()
        assert the_load(router, worker) == (1, 0)
        steps[2].set()
        assert await client.read_chunk() == DONE
        await eventually(lambda: the_load(router, worker) == (0, 0), "all is given back")


async def test_every_request_is_counted_by_what_came_of_it(lone_worker):
    async with router_over(lone_worker) as router:
        worker_id = f"127.0.0.1:{lone_worker.port}"

        def count(status, outcome, worker=worker_id):
            labels = f'outcome="{outcome}",policy="least_delay",role="mixed",status="{status}",worker="{worker}"'
            return f"warmroute_requests_total{{{labels}}}"

        for status in (b"200 OK", b"200 OK", b"429 Too Many Requests"):
            lone_worker.script = answering(response(b"{}", status))
            await ask(router.port, STREAM)
        await ask(router.port, post(body=b"no json"))
        lone_worker.script = hanging = Hanging()
        async with await Client.connect(router.port) as client:
            await client.send(STREAM)
            await hanging.started.wait()
            client.abort()
            await eventually(hanging.given_up.is_set, "the connection to the worker is closed")
        await assert_nothing_held(router)
        seen = {_sorted_labels(name): value for name, value in (await samples(router)).items()}
        assert seen[count(200, "served")] == 2
        assert seen[count(429, "error")] == 1
        assert seen[count(400, "refused", "")] == 1
        assert seen[count(499, "aborted")] == 1
        assert seen["warmroute_requests_received_total"] == seen["warmroute_requests_answered_total"] == 5
        assert seen["warmroute_requests_running"] == 0
        assert seen["warmroute_request_duration_seconds_count"] == seen["warmroute_router_added_seconds_count"] == 2
        assert seen["warmroute_ledger_consistent"] == 1
        assert seen['warmroute_leases_open{role="mixed"}'] == 0
        assert seen["warmroute_time_to_first_token_seconds_count"] == 2
        (tally,) = [worker.tally for worker in router.ledger.workers()]
        assert (tally.requests, tally.first_tokens) == (4, 2)
        assert tally.ttft_seconds == pytest.approx(router.metrics.ttft.sum)


def _sorted_labels(sample):
    name, brace, labels = sample.partition("{")
    return name + brace + ",".join(sorted(re.findall(r'\w+="[^"]*"', labels))) + ("}" if brace else "")


async def test_the_request_id_is_logged(router, worker, caplog):
    with caplog.at_level(logging.DEBUG, "warmroute"):
        await ask(router.port, post(headers=[(b"X-Request-Id", b"find-me-in-the-log")]))
    assert "find-me-in-the-log" in caplog.text


async def test_a_request_id_cannot_forge_a_log_line(router, worker, caplog):
    with caplog.at_level(logging.DEBUG, "warmroute"):
        await ask(router.port, post(headers=[(b"X-Request-Id", b"a\x0bforged \x85line\x1b[31m")]))
    assert not any(control in record.getMessage() for record in caplog.records for control in "\n\r\x0b\x1b\x85")


BEHAVIOURS = [
    answering(response(b"fine")),
    answering(response(b"busy", b"503 Service Unavailable")),
    streaming([b"data: 1\n\n", b"data: [DONE]\n\n"]),
    then_closing(response(b"last")),
    then_closing(b""),
    then_resetting(),
    then_resetting(SSE_HEAD + chunk(b"data: 1\n\n")),
    then_closing(b"garbage\r\n\r\n"),
    Hanging(),
    Hanging(SSE_HEAD),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_happens_to_many_at_once_nothing_is_left(pair, seed):
    """Workers that answer, break and hang, and clients that stay, send garbage and leave, all at the same time."""
    rng = random.Random(seed)

    async def script(request, connection):
        await rng.choice(BEHAVIOURS)(request, connection)

    async def visit(router):
        async with await Client.connect(router.port) as client:
            for _ in range(rng.randrange(1, 4)):
                body = rng.choice([b"no json", b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'])
                path = rng.choice([CHAT, COMPLETIONS, "/v1/embeddings"])
                await client.send(post(path, body)[: rng.choice([-3, None])])
            await asyncio.sleep(rng.random() * 0.2)
            rng.choice([client.abort, client.end_sending])()
            await client.read_to_end()

    for worker in pair:
        worker.script = script
    async with router_over(*pair) as router:
        await asyncio.gather(*(visit(router) for _ in range(80)))
        await assert_nothing_held(router)
        for worker in pair:
            worker.forget()
        await eventually(lambda: len(router.fleet.pool("mixed", None).candidates) == 2, "both workers are back", 7)
        assert (await ask(router.port, post())).status == 200
