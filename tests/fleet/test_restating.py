"""Static workers that a new configuration names, or no longer names."""

from dataclasses import replace

import pytest
from tests.fleet.fake_engine import until
from tests.fleet.test_registration import FOREVER, info_of

from warmroute.config import ManagerConfig
from warmroute.fleet import InvalidInstance


def naming(*urls: str, **more) -> ManagerConfig:
    return ManagerConfig(worker=urls, **more)


def routable(fleet) -> set[str]:
    return {row.worker.url for row in fleet.pool("mixed", None).candidates}


async def test_new_ones_are_probed_and_old_ones_leave_when_idle(make_engine, make_fleet):
    first, second, third = [await make_engine() for _ in range(3)]
    fleet = await make_fleet(first.url, second.url, tick=FOREVER)
    await until(lambda: len(routable(fleet)) == 2)
    kept, leaving = fleet.get(second.id), fleet.get(first.id)
    leaving.worker.load.running_requests = 1
    assert fleet.restate(naming(second.url, third.url)) == (1, 1)
    await until(lambda: routable(fleet) == {second.url, third.url})
    assert fleet.get(first.id) is leaving
    leaving.worker.load.running_requests = 0
    await until(lambda: fleet.get(first.id) is None)
    assert fleet.get(second.id) is kept
    assert fleet.restate(naming(second.url, third.url)) == (0, 0)


async def test_one_that_leaves_and_is_named_again_stays(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    member = fleet.get(engine.id)
    member.worker.load.running_requests = 1
    fleet.restate(naming())
    assert not fleet.can_serve()
    fleet.restate(naming(engine.url))
    assert fleet.can_serve()
    assert (fleet.get(engine.id) is member, member.wanted) == (True, True)
    member.worker.load.running_requests = 0


async def test_one_that_registers_itself_stays_as_a_registered_one(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    await fleet.register(info_of(engine))
    fleet.restate(naming())
    assert fleet.can_serve()
    assert not fleet.get(engine.id).wanted


async def test_one_that_was_added_by_an_operator_stays(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(tick=FOREVER)
    fleet.add_worker(engine.url)
    await until(fleet.can_serve)
    assert fleet.restate(naming()) == (0, 0)
    assert fleet.can_serve()


async def test_one_that_is_waited_for_after_it_left_is_waited_for_no_longer(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    fleet.deregister(engine.id)
    await until(lambda: fleet.get(engine.id) is None)
    fleet.restate(naming())
    await engine.stop()
    await engine.start()
    with pytest.raises(TimeoutError):
        await until(lambda: fleet.get(engine.id) is not None, 0.3)


async def test_what_the_file_tells_of_a_known_one_is_taken_over(make_engine, make_fleet, tmp_path):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    told = tmp_path / "register.yaml"
    told.write_text(f"instances: [{{role: mixed, host_ip: {engine.host}, port: {engine.port}, metrics_port: 1234}}]")
    assert fleet.restate(naming(register_path=str(told))) == (1, 0)
    assert fleet.get(engine.id).info == replace(fleet.get(engine.id).info, metrics_port=1234)


async def test_what_cannot_be_used_changes_nothing(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    with pytest.raises(InvalidInstance):
        fleet.restate(ManagerConfig(prefill=("http://a:1",)))
    assert fleet.can_serve()
    assert fleet.restate(naming(engine.url)) == (0, 0)
