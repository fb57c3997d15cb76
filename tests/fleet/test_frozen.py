"""Workers that take connections and answer nothing, over real sockets."""

import asyncio

from tests.fleet.fake_engine import until
from tests.fleet.test_registration import FOREVER

from warmroute.fleet.verdict import Verdict


async def test_one_probe_without_an_answer_makes_a_worker_unroutable_whatever_the_threshold(make_engine, make_fleet):
    engine, other = await make_engine(), await make_engine()
    fleet = await make_fleet(
        engine.url, other.url, tick=0.1, timeout=0.2, health_failure_threshold=9, health_success_threshold=2
    )
    await until(lambda: len(fleet.pool("mixed", None).candidates) == 2)
    engine.gate.clear()
    await until(lambda: [row.worker.id for row in fleet.pool("mixed", None).candidates] == [other.id])
    engine.gate.set()
    await until(lambda: len(fleet.pool("mixed", None).candidates) == 2)


async def test_two_in_a_row_are_told_the_second_comes_at_once_and_each_later_one_is_told_too(make_engine, make_fleet):
    engine = await make_engine()
    frozen = []
    fleet = await make_fleet(engine.url, tick=FOREVER, timeout=0.2, on_frozen=frozen.append)
    await until(fleet.can_serve)
    worker = fleet.get(engine.id).worker
    engine.gate.clear()
    fleet.judge(worker, Verdict.REFUSED, b"1")
    await until(lambda: frozen)
    assert frozen == [worker]
    assert engine.probes >= 3
    fleet.judge(worker, Verdict.REFUSED, b"2")
    await until(lambda: fleet.get(engine.id).health.timeouts == 3)
    await until(lambda: frozen == [worker, worker])


async def test_a_worker_that_thaws_and_freezes_again_is_told_again(make_engine, make_fleet):
    engine = await make_engine()
    frozen = []
    fleet = await make_fleet(engine.url, tick=0.05, timeout=0.1, on_frozen=frozen.append)
    for turn in range(2):
        await until(fleet.can_serve)
        engine.gate.clear()
        await until(lambda turn=turn: len(frozen) == turn + 1)
        assert not fleet.can_serve()
        engine.gate.set()


async def test_an_answer_that_is_no_pass_is_no_freeze(make_engine, make_fleet):
    engine = await make_engine()
    frozen = []
    fleet = await make_fleet(engine.url, tick=0.02, timeout=1.0, on_frozen=frozen.append)
    await until(fleet.can_serve)
    engine.health_status = 503
    before = engine.probes
    await until(lambda: engine.probes > before + 4)
    await asyncio.sleep(0)
    assert frozen == []
