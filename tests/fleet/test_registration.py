"""POST /register as a worker sees it, over real sockets."""

import asyncio
import time
from dataclasses import replace

import pytest
from tests.fleet.conftest import QUICK
from tests.fleet.fake_engine import FakeEngine, until

from warmroute.fleet import InstanceInfo, InvalidInstance, NotHealthy
from warmroute.fleet.address import parse_address

FOREVER = 3600.0


def info_of(engine: FakeEngine, role="mixed", **fields) -> InstanceInfo:
    return replace(InstanceInfo.at(parse_address(engine.url), role), **fields)


async def test_a_new_worker_is_stored_with_all_that_routing_needs(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    await fleet.register(info_of(engine))
    member = fleet.get(engine.id)
    assert (member.state, member.source, member.wanted) == ("healthy", "registered", False)
    assert [candidate.worker for candidate in fleet.pool("mixed", "m").candidates] == [member.worker]
    assert not fleet.knows_model("mixed", "other")
    assert (member.worker.cache_tokens, member.worker.report.waiting_requests) == (20_000, 1.0)
    assert fleet.can_serve()


async def test_an_unhealthy_worker_is_not_stored(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    engine.health_status = 503
    with pytest.raises(NotHealthy, match="service is not healthy") as raised:
        await fleet.register(info_of(engine))
    assert (raised.value.url, raised.value.reason) == (engine.url, "HTTP 503")
    assert list(fleet.members) == []
    engine.health_status = 200
    await fleet.register(info_of(engine))
    assert fleet.get(engine.url) is not None


async def test_a_hanging_probe_ends_with_the_limit(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(timeout=30.0, times=replace(QUICK, register_limit=0.2))
    engine.gate.clear()
    started = time.monotonic()
    with pytest.raises(NotHealthy) as raised:
        await fleet.register(info_of(engine))
    assert raised.value.reason == "no answer within 0.2 s"
    assert time.monotonic() - started < 2.0


async def test_hanging_models_and_metrics_do_not_hold_up_the_answer(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(timeout=30.0, times=replace(QUICK, acquaintance=0.1))
    engine.metrics_gate.clear()
    started = time.monotonic()
    await fleet.register(info_of(engine))
    assert time.monotonic() - started < 2.0
    member = fleet.get(engine.id)
    assert (member.state, member.vitals, member.worker.cache_tokens) == ("healthy", None, 500_000)
    assert member.model_ids == {"m"}


@pytest.mark.parametrize("threshold", [1, 3, 60])
async def test_as_many_probes_as_the_threshold(make_engine, make_fleet, threshold):
    engine = await make_engine()
    fleet = await make_fleet(tick=FOREVER, health_success_threshold=threshold)
    await fleet.register(info_of(engine))
    assert engine.probes == threshold


async def test_registrations_of_one_worker_at_the_same_time_make_one(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(tick=FOREVER)
    engine.gate.clear()
    calls = [asyncio.create_task(fleet.register(info_of(engine))) for _ in range(5)]
    await until(lambda: engine.probes_now)
    calls[0].cancel()
    await asyncio.sleep(0)
    engine.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [None] * 4
    assert (len(fleet.members), engine.probes) == (1, 1)


async def test_a_known_worker_is_answered_at_once(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(timeout=30.0)
    await fleet.register(info_of(engine))
    engine.gate.clear()
    await until(lambda: engine.probes_now)
    async with asyncio.timeout(0.3):
        await fleet.register(info_of(engine, is_paused=True, connector_port=7))
    member = fleet.get(engine.id)
    assert (member.state, member.info.connector_port) == ("paused", 7)
    assert not fleet.can_serve()


async def test_a_worker_can_register_paused(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    await fleet.register(info_of(engine, is_paused=True))
    assert fleet.get(engine.id).state == "paused"


async def test_a_heartbeat_of_an_unhealthy_worker_brings_its_probe_forward(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(tick=FOREVER)
    await fleet.register(info_of(engine))
    engine.health_status = 503
    fleet.worker_refused(fleet.get(engine.id).worker)
    await until(lambda: engine.probes == 2)
    engine.health_status = 200
    await fleet.register(info_of(engine))
    await until(fleet.can_serve)


async def test_a_static_worker_that_registers_stays_static_and_takes_the_metadata(make_engine, make_fleet):
    engine = await make_engine(up=False)
    fleet = await make_fleet(engine.url)
    async with asyncio.timeout(0.3):
        await fleet.register(info_of(engine, metrics_port=9, tp_size=4))
    member = fleet.get(engine.id)
    assert (member.source, member.wanted, member.state, member.info.tp_size) == ("static", True, "starting", 4)
    assert member.info.metrics_url == "http://127.0.0.1:9/metrics"


async def test_a_role_that_the_mode_has_no_use_for(make_engine, make_fleet):
    engine = await make_engine()
    mixed, split = await make_fleet(), await make_fleet(splitwise=True)
    with pytest.raises(InvalidInstance, match="only MIXED instances are allowed"):
        await mixed.register(info_of(engine, "decode"))
    with pytest.raises(InvalidInstance, match="splitwise mode only supports PREFILL/DECODE instances"):
        await split.register(info_of(engine))
    assert engine.probes == 0
    await split.register(info_of(engine, "prefill"))
    assert not split.can_serve()
    other = await make_engine()
    await split.register(info_of(other, "decode"))
    assert split.can_serve()


async def test_ipv6(make_engine, make_fleet):
    try:
        engine = await make_engine("::1")
    except OSError:
        pytest.skip("no IPv6 loopback here")
    fleet = await make_fleet()
    await fleet.register(info_of(engine))
    member = fleet.get(f"[::1]:{engine.port}")
    assert (member.state, member.url) == ("healthy", f"http://[::1]:{engine.port}")
    assert member.vitals is not None
