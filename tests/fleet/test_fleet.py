"""What becomes of workers while the fleet runs, over real sockets."""

import logging
from dataclasses import replace

import pytest
from tests.fleet.conftest import QUICK
from tests.fleet.fake_engine import until
from tests.fleet.test_registration import FOREVER, info_of

from warmroute.config import Config
from warmroute.fleet import Fleet, InvalidInstance, UnknownWorker
from warmroute.fleet.verdict import Verdict


def state_of(fleet: Fleet, engine) -> str:
    member = fleet.get(engine.id)
    return "unknown" if member is None else member.state


async def test_a_fleet_starts_without_workers(make_fleet):
    fleet = await make_fleet()
    assert not fleet.can_serve()
    assert fleet.pool("mixed", "m").candidates == []
    assert fleet.models() == []
    assert await fleet.probe_all() == []


async def test_a_static_worker_serves_with_its_models_known_from_the_first_moment(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    known = []
    await until(lambda: known.append(fleet.knows_model("mixed", "other")) or fleet.can_serve())
    assert known[-1] is False
    assert fleet.models() == [{"id": "m", "by": engine.port}]
    assert fleet.get(engine.id).worker.cache_tokens == 20_000


async def test_every_change_of_routing_is_told(make_engine, make_fleet):
    engine = await make_engine()
    changes = []
    fleet = await make_fleet(engine.url, on_change=lambda: changes.append(1))
    await until(fleet.can_serve)
    before = len(changes)
    assert before >= 2
    engine.health_status = 503
    await until(lambda: not fleet.can_serve())
    assert len(changes) == before + 1


async def test_a_static_worker_may_come_later(make_engine, make_fleet, caplog):
    engine = await make_engine(up=False)
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(lambda: "is waited for" in caplog.text)
    assert state_of(fleet, engine) == "starting"
    await engine.start()
    await until(fleet.can_serve)


async def test_thresholds_are_counted_in_ticks_and_the_record_stays(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, health_failure_threshold=3, health_success_threshold=2)
    await until(fleet.can_serve)
    worker = fleet.get(engine.id).worker
    assert engine.probes_answered[200] >= 2
    engine.health_status = 503
    await until(lambda: not fleet.can_serve())
    assert engine.probes_answered[503] >= 3
    engine.health_status = 200
    await until(fleet.can_serve)
    assert fleet.get(engine.id).worker is worker
    assert fleet.forgotten == []


async def test_ticks_of_one_worker_never_overlap(make_engine, make_fleet):
    engine = await make_engine()
    engine.delay = 0.05
    fleet = await make_fleet(engine.url, tick=0.01, timeout=5.0)
    await until(lambda: engine.probes > 4)
    fleet.worker_refused(fleet.get(engine.id).worker)
    await until(lambda: engine.probes > 6)
    assert engine.most_probes == 1


async def test_metrics_that_hang_delay_no_probe(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=0.01, timeout=30.0)
    await until(fleet.can_serve)
    engine.metrics_gate.clear()
    polls, probes = engine.polls, engine.probes
    await until(lambda: engine.polls > polls and engine.probes > probes + 5)


async def test_a_report_that_cannot_be_renewed_grows_old(make_engine, make_fleet):
    engine = await make_engine()
    engine.running = 7
    fleet = await make_fleet(engine.url, tick=0.02, times=replace(QUICK, report_age=0.5))
    await until(fleet.can_serve)
    assert fleet.worker_metrics()[engine.url]["num_requests_running"] == 7
    fleet.get(engine.id).worker.load.running_requests = 2
    engine.metrics_gate.clear()
    await until(lambda: fleet.get(engine.id).worker.report is None)
    assert fleet.can_serve()
    assert fleet.worker_metrics() == {
        engine.url: {"num_requests_running": 2, "num_requests_waiting": 0, "available_gpu_block_num": 0}
    }
    engine.metrics_gate.set()
    await until(lambda: fleet.get(engine.id).worker.report)


async def test_a_restart_between_two_probes_is_seen_in_the_metrics(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER, poll_interval=0.02)
    await until(fleet.can_serve)
    engine.started_at, engine.models = 2000.0, ["n"]
    await until(lambda: fleet.forgotten)
    await until(lambda: fleet.get(engine.id).model_ids == {"n"})
    assert fleet.forgotten == [fleet.get(engine.id).worker]


async def test_a_restart_with_an_outage_is_known_before_the_worker_serves_again(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, poll_interval=FOREVER)
    await until(fleet.can_serve)
    await engine.stop()
    await until(lambda: not fleet.can_serve())
    assert fleet.forgotten == []
    engine.started_at, engine.models = 2000.0, ["n"]
    await engine.start()
    await until(fleet.can_serve)
    assert fleet.forgotten == [fleet.get(engine.id).worker]
    assert fleet.get(engine.id).model_ids == {"n"}


async def test_models_that_could_not_be_had_are_asked_for_again(make_engine, make_fleet):
    engine = await make_engine()
    engine.models = None
    fleet = await make_fleet(engine.url, poll_interval=0.02)
    await until(fleet.can_serve)
    assert len(fleet.pool("mixed", "anything").candidates) == 1
    engine.models = ["m"]
    await until(lambda: fleet.get(engine.id).model_ids == {"m"})


async def test_a_refusal_takes_a_worker_out_at_once_until_a_probe_passes(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER, health_success_threshold=3)
    await until(fleet.can_serve)
    before = engine.probes
    engine.gate.clear()
    for _ in range(20):
        fleet.worker_refused(fleet.get(engine.id).worker)
    assert not fleet.can_serve()
    await until(lambda: engine.probes_now)
    engine.gate.set()
    await until(fleet.can_serve)
    assert (engine.probes - before, engine.most_probes) == (1, 1)


async def test_a_probe_that_began_before_the_refusal_proves_nothing(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    worker, before = fleet.get(engine.id).worker, engine.probes
    engine.gate.clear()
    fleet.worker_refused(worker)
    await until(lambda: engine.probes_now)
    fleet.worker_refused(worker)
    engine.gate.set()
    await until(fleet.can_serve)
    assert engine.probes - before == 2


async def test_a_worker_that_leaves_serves_out_its_requests(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    await fleet.register(info_of(engine))
    worker = fleet.get(engine.id).worker
    worker.load.running_requests = 2
    assert fleet.deregister(engine.url) == 2
    assert not fleet.can_serve()
    await fleet.register(info_of(engine))
    assert state_of(fleet, engine) == "draining"
    worker.load.running_requests = 0
    await until(lambda: fleet.get(engine.id) is None)
    assert fleet.forgotten == [worker]
    await fleet.register(info_of(engine))
    assert state_of(fleet, engine) == "healthy"


async def test_a_static_worker_that_left_comes_back_after_a_restart(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url)
    await until(fleet.can_serve)
    assert fleet.deregister(engine.id) == 0
    await until(lambda: fleet.get(engine.id) is None)
    probes = engine.probes
    await until(lambda: engine.probes > probes + 3)
    assert fleet.get(engine.id) is None
    engine.health_status = 503
    probes = engine.probes
    await until(lambda: engine.probes > probes + 1)
    engine.health_status = 200
    await until(fleet.can_serve)
    assert fleet.get(engine.id).source == "static"


async def test_a_static_worker_that_left_may_also_register_again(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url)
    await until(fleet.can_serve)
    fleet.deregister(engine.id)
    await until(lambda: fleet.get(engine.id) is None)
    await fleet.register(info_of(engine))
    assert (state_of(fleet, engine), fleet.get(engine.id).wanted) == ("healthy", True)


async def test_a_static_worker_that_was_deleted_stays_away(make_engine, make_fleet):
    kept, deleted, left = [await make_engine() for _ in range(3)]
    fleet = await make_fleet(kept.url, deleted.url, left.url)
    await until(lambda: len(fleet.pool("mixed", None).candidates) == 3)
    fleet.deregister(deleted.id, for_good=True)
    fleet.deregister(left.id)
    await until(lambda: fleet.get(deleted.id) is None and fleet.get(left.id) is None)
    assert fleet.deregister(left.id, for_good=True) == 0
    with pytest.raises(UnknownWorker):
        fleet.deregister(left.id, for_good=True)
    for _ in range(2):  # the first time for probes that were under way
        for engine in (kept, deleted, left):
            engine.probes = 0
        await until(lambda: kept.probes > 5)
    assert (deleted.probes, left.probes) == (0, 0)


async def test_a_drained_worker_waits_for_undrain(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    await fleet.register(info_of(engine))
    assert fleet.drain(engine.url).state == "draining"
    await fleet.register(info_of(engine))
    assert not fleet.can_serve()
    assert fleet.undrain(engine.id).state == "healthy"
    assert fleet.can_serve()


@pytest.mark.parametrize("name", ["127.0.0.1:1", "http://nowhere:1", "", "no worker", "[::1]:1"])
async def test_an_unknown_worker_is_named(make_fleet, name):
    fleet = await make_fleet()
    for act in (fleet.drain, fleet.undrain, fleet.deregister):
        with pytest.raises(UnknownWorker, match="unknown worker"):
            act(name)
    assert fleet.get(name) is None


async def test_a_silent_registered_worker_is_removed_and_a_wanted_one_is_not(make_engine, make_fleet):
    silent, wanted = await make_engine(), await make_engine()
    fleet = await make_fleet(wanted.url, times=replace(QUICK, expiry=0.3))
    await until(fleet.can_serve)
    await fleet.register(info_of(silent))
    for engine in (silent, wanted):
        engine.health_status = 503
    await until(lambda: fleet.get(silent.id) is None)
    await until(lambda: state_of(fleet, wanted) == "unhealthy")
    wanted.health_status = 200
    await until(fleet.can_serve)


async def test_an_operator_adds_a_worker(make_engine, make_fleet):
    engine, fleet = await make_engine(), await make_fleet()
    member = fleet.add_worker(engine.url + "/")
    assert (member.state, member.source, member.id) == ("starting", "added", engine.id)
    await until(fleet.can_serve)
    fleet.deregister(engine.id, for_good=True)
    assert fleet.add_worker(engine.id) is member
    assert fleet.can_serve()
    with pytest.raises(InvalidInstance, match="only MIXED"):
        fleet.add_worker(engine.url, "decode")
    with pytest.raises(InvalidInstance, match="must be http"):
        fleet.add_worker("ftp://a:1")


async def test_every_member_is_probed_on_request(make_engine, make_fleet):
    good, bad, away = await make_engine(), await make_engine(), await make_engine(up=False)
    bad.health_status = 500
    fleet = await make_fleet(good.url, bad.url, away.url)
    results = {member.id: (passed, reason) for member, passed, reason in await fleet.probe_all()}
    assert results[good.id] == (True, "")
    assert results[bad.id] == (False, "HTTP 500")
    assert results[away.id][0] is False


async def test_an_abort_goes_to_everybody(make_engine, make_fleet):
    good, refusing, away = await make_engine(), await make_engine(), await make_engine(up=False)
    refusing.abort_status = 404
    fleet = await make_fleet(good.url, refusing.url, away.url)
    answers = {answer.member.url: answer for answer in await fleet.abort(b'{"abort_all":true}')}
    assert good.aborts == refusing.aborts == [b'{"abort_all":true}']
    assert (answers[good.url].status, answers[good.url].error) == (200, None)
    assert answers[good.url].body == {"port": good.port}
    assert (answers[refusing.url].status, answers[refusing.url].error) == (404, "HTTP 404")
    assert (answers[away.url].status, answers[away.url].body) == (None, None)
    assert answers[away.url].error


async def test_an_unexpected_error_stops_no_loop(make_engine, make_fleet, caplog):
    engine = await make_engine()
    failing = False

    def on_change() -> None:
        if failing:
            raise RuntimeError("this listener is broken")

    fleet = await make_fleet(engine.url, tick=0.02, health_success_threshold=2, on_change=on_change)
    await until(fleet.can_serve)
    caplog.set_level(logging.ERROR)
    failing = True
    for expected in ("unhealthy", "healthy", "unhealthy", "healthy"):
        engine.health_status = 200 if expected == "healthy" else 503
        await until(lambda expected=expected: state_of(fleet, engine) == expected)
    assert 1 <= caplog.text.count("unexpected error in the probe of") <= 4
    assert "this listener is broken" in caplog.text


async def test_a_static_role_that_the_mode_has_no_use_for_ends_the_start():
    config = Config.model_validate({"manager": {"worker": ["http://a:1"]}, "server": {"splitwise": True}})
    fleet = Fleet(config, lambda worker: None)
    with pytest.raises(InvalidInstance, match="splitwise mode"):
        await fleet.start()
    await fleet.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = fleet.http


async def test_after_stop_nothing_is_probed(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=0.01)
    await until(fleet.can_serve)
    await fleet.stop()
    probes = engine.probes
    other = await make_fleet((await make_engine()).url, tick=0.01)
    await until(other.can_serve)
    assert engine.probes == probes
    assert len(fleet.members) == 1


async def test_failed_requests_take_a_worker_out_until_one_is_served(make_engine, make_fleet):
    engine, other = await make_engine(), await make_engine()
    fleet = await make_fleet(engine.url, other.url, tick=FOREVER, breaker_failures=2, breaker_open=0.1)
    await until(lambda: len(fleet.pool("mixed", None).candidates) == 2)
    worker = fleet.get(engine.id).worker
    for number in range(2):
        fleet.judge(worker, Verdict.SERVER_ERROR, b"%d" % number)
    assert [row.worker.id for row in fleet.pool("mixed", None).candidates] == [other.id]
    await until(lambda: worker.suspect)
    assert len(fleet.pool("mixed", None).candidates) == 2
    fleet.attempt_started(worker, b"trial")
    assert len(fleet.pool("mixed", None).candidates) == 1
    fleet.judge(worker, Verdict.OK, b"trial")
    assert len(fleet.pool("mixed", None).candidates) == 2


async def test_a_verdict_on_a_worker_that_has_left_is_ignored(make_engine, make_fleet):
    engine = await make_engine()
    fleet = await make_fleet(engine.url, tick=FOREVER)
    await until(fleet.can_serve)
    worker = fleet.get(engine.id).worker
    fleet.deregister(engine.id, for_good=True)
    await until(lambda: fleet.get(engine.id) is None)
    for verdict in Verdict:
        fleet.judge(worker, verdict, b"1")
    fleet.attempt_started(worker, b"1")
    assert not worker.suspect
