"""What the metrics say of the time that requests take."""

import asyncio

import pytest
from tests.support.http_client import COMPLETIONS, Client, ask, post
from tests.support.router import assert_nothing_held, config, eventually, router_over, running
from tests.support.scripted_worker import DONE, LAST_CHUNK, SSE_HEAD, answering, chunk, response

from warmroute.config.tree import TelemetryConfig
from warmroute.telemetry.collector import create_registry

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = post(COMPLETIONS, {"model": "m", "prompt": "x" * 4000, "stream": True})


async def test_a_stream_of_n_pieces_has_the_mean_of_n_minus_1_gaps(lone_worker):
    gap = 0.03

    async def script(_request, connection):
        await connection.send(SSE_HEAD)
        for number in range(5):
            await connection.send(chunk(b"data: %d\n\n" % number if number < 4 else DONE))
            await asyncio.sleep(gap)
        await connection.send(LAST_CHUNK)

    lone_worker.script = script
    async with router_over(lone_worker) as router:
        await ask(router.port, STREAM)
        await assert_nothing_held(router)
        (worker,) = router.ledger.workers()
        spread = router.metrics.inter_token
        assert spread.count == worker.tally.streams == 1
        # Five gaps in the script (one before the end), four between the pieces.
        assert 4 * gap / 4 <= spread.sum <= 20 * gap
        assert spread.sum == worker.tally.inter_token_seconds


async def test_answers_that_are_no_streams_have_no_gaps(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with router_over(lone_worker) as router:
        await ask(router.port, post())
        assert router.metrics.inter_token.count == 0
        assert router.metrics.duration.count == 1


async def test_what_came_before_the_request_was_sent_is_the_routers_and_the_rest_is_not(lone_worker):
    async def script(_request, connection):
        await asyncio.sleep(0.1)
        await connection.send(response(b"{}"))

    lone_worker.script = script
    async with router_over(lone_worker) as router:
        await ask(router.port, post())
        await eventually(lambda: router.metrics.duration.count == 1, "the request is counted")
        assert router.metrics.duration.sum >= 0.09
        assert 0 < router.metrics.added.sum < router.metrics.duration.sum


async def test_a_request_that_runs_is_received_and_not_answered(lone_worker):
    release = asyncio.Event()

    async def script(_request, connection):
        await release.wait()
        await connection.send(response(b"{}"))

    lone_worker.script = script
    async with router_over(lone_worker) as router:
        async with await Client.connect(router.port) as client:
            await client.send(post())
            await eventually(lambda: router.metrics.received == 1, "the request is counted")
            assert router.metrics.answered == 0
            release.set()
            await client.read_response()
        await eventually(lambda: router.metrics.answered == 1, "its end is counted")
        assert router.metrics.received == 1


async def test_a_router_without_request_metrics_shows_what_is_left(lone_worker):
    lone_worker.script = answering(SSE_HEAD + chunk(b"data: 1\n\n") + chunk(DONE) + LAST_CHUNK)
    settings = config(lone_worker.url).model_copy(update={"telemetry": TelemetryConfig(request_metrics=False)})
    async with running(settings) as router:
        await ask(router.port, STREAM)
        await eventually(lambda: router.metrics.answered == 1, "the request is counted")
        shown = {family.name for family in create_registry(router.metric_sources()).collect()}
        assert router.metrics.ttft.count == router.metrics.duration.count == router.metrics.prompt_tokens == 0
    assert {"warmroute_requests_answered", "warmroute_ledger_consistent", "warmroute_running_requests"} <= shown
    assert not {"warmroute_requests", "warmroute_time_to_first_token_seconds", "warmroute_prompt_tokens"} & shown
