"""The admin endpoints: what they say, and that they change nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.pools import chain

from warmroute.control.admin_models import HistorySample, RouterHistory, RouterState
from warmroute.control.live_feed import MAX_WATCHERS
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome


def select(control):
    """Place a prompt of 256 tokens, which are four blocks."""
    prompt = Prompt(tokens=256, fingerprint=chain("abcd"))
    return control.parts.scheduler.select(prompt, control.parts.fleet.pool("mixed", None))


async def events(response) -> AsyncIterator[tuple[str, Any]]:
    """The events of an open stream."""
    while line := await response.content.readline():
        if line.startswith(b"event: "):
            data = await response.content.readline()
            yield line[7:].decode().strip(), json.loads(data.removeprefix(b"data: "))


def watch(control):
    return control.http.get(f"http://127.0.0.1:{control.port}/admin/events")


async def test_a_router_without_workers_tells_that_it_cannot_serve(control):
    answer = await control.get("/admin/state")
    state = RouterState.model_validate(answer.body)
    assert (state.version, state.mode, state.policies) == ("1.2.3", "mixed", {"mixed": "request_num"})
    assert (state.can_serve, state.workers, state.flows) == (False, [], [])
    assert state.totals.workers == state.totals.routable == 0
    assert abs(state.time - time.time()) < 60
    assert answer.headers["cache-control"] == "no-store"


async def test_a_worker_is_shown_with_its_load_and_how_it_did_lately(control, engine):
    await control.add(engine)
    control.parts.history.take(time.monotonic(), time.time())
    lease = select(control)
    lease.release(Outcome.SERVED)
    lease = select(control)
    state = RouterState.model_validate((await control.get("/admin/state")).body)
    (worker,) = state.workers
    assert (worker.id, worker.state, worker.can_be_chosen) == (engine.id, "healthy", True)
    assert (worker.running, worker.pending_prefill_tokens) == (1, 0)
    assert worker.hit_share == pytest.approx(0.5)
    assert worker.ttft_seconds is None
    assert worker.known_prefix_tokens == 256
    assert state.can_serve
    assert (state.totals.running, state.totals.routable) == (1, 1)
    assert [flow.tokens for flow in state.flows] == [{engine.id: 256}]
    lease.release(Outcome.SERVED)


async def test_with_pairs_both_policies_are_told_and_a_request_counts_once(start_control, start_engine):
    control = await start_control(server={"splitwise": True})
    for role in ("prefill", "decode"):
        engine = await start_engine()
        await control.post("/register", engine.record(role=role, transfer_protocol=["rdma"], connector_port=1))
    pair = control.parts.scheduler.select_pair(Prompt(tokens=10), control.parts.fleet.pairs(None))
    state = RouterState.model_validate((await control.get("/admin/state")).body)
    assert state.mode == "splitwise"
    assert set(state.policies) == {"prefill", "decode"}
    assert [(worker.role, worker.running) for worker in state.workers] == [("prefill", 1), ("decode", 1)]
    assert state.totals.running == 1
    pair.release(Outcome.SERVED)


async def test_the_history_is_what_was_sampled(control):
    assert (await control.get("/admin/history")).body == {"interval_seconds": 5.0, "samples": []}
    for now in (1.0, 6.0):
        control.parts.history.take(now, 1000 + now)
        control.parts.metrics.answered += 1
    history = RouterHistory.model_validate((await control.get("/admin/history")).body)
    assert [(sample.time, sample.requests_per_second) for sample in history.samples] == [(1006.0, 0.2)]


async def test_the_stream_tells_the_state_at_once_and_again_and_each_sample_once(control, engine):
    async with watch(control) as response:
        assert response.content_type == "text/event-stream"
        seen = events(response)
        name, first = await anext(seen)
        assert name == "state"
        assert RouterState.model_validate(first).workers == []
        await control.add(engine)
        for now in (1.0, 6.0):
            control.parts.history.take(now, time.time())
        names = []
        async with asyncio.timeout(10):
            while names.count("state") < 3:
                name, body = await anext(seen)
                names.append(name)
                if name == "sample":
                    HistorySample.model_validate(body)
        assert [worker["id"] for worker in body["workers"]] == [engine.id]
        assert names.count("sample") == 1


async def test_nothing_is_made_for_nobody(control):
    async with watch(control) as response:
        await anext(events(response))
        assert control.parts.feed.watchers == 1
    async with asyncio.timeout(10):
        while control.parts.feed.watchers or any(task.get_name() == "live feed" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)


async def test_the_number_of_watchers_is_bounded(control):
    streams = [await watch(control) for _ in range(MAX_WATCHERS)]
    for stream in streams:
        await anext(events(stream))
    answer = await control.get("/admin/events")
    assert answer.status == 503
    assert answer.body["error"]["code"] == "too_many_watchers"
    for stream in streams:
        stream.close()


@pytest.mark.parametrize("limit", ["0", "-1", "many", ""])
async def test_a_bad_parameter_is_named(control, limit):
    answer = await control.get(f"/admin/decisions?limit={limit}")
    assert answer.status == 400
    assert answer.body["error"]["code"] == "invalid_parameter"
    assert answer.body["error"]["message"].startswith("limit: ")


async def test_workers_are_in_the_order_in_which_people_count(control):
    for port in (40001, 9, 8101):
        assert (await control.post("/workers", {"url": f"http://127.0.0.1:{port}"})).status == 200
    state = RouterState.model_validate((await control.get("/admin/state")).body)
    assert [worker.id for worker in state.workers] == ["127.0.0.1:9", "127.0.0.1:8101", "127.0.0.1:40001"]
