import logging
from dataclasses import replace

import pytest
from tests.fleet.rosters import Surroundings, healthy, instance, routable, vitals

from warmroute.fleet.breaker import BreakerState
from warmroute.fleet.states import State
from warmroute.fleet.verdict import Verdict


@pytest.fixture
def world() -> Surroundings:
    return Surroundings()


def fail(roster, member, times: int = 5, verdict: Verdict = Verdict.LOST, name: bytes = b"r") -> None:
    for number in range(times):
        roster.breakers.judge(member, verdict, b"%b%d" % (name, number))


@pytest.mark.parametrize("verdict", [Verdict.LOST, Verdict.SERVER_ERROR, Verdict.BROKEN_STREAM])
def test_failures_take_a_worker_out_and_one_good_request_brings_it_back(world, verdict, caplog):
    caplog.set_level(logging.INFO)
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    fail(roster, member, 4, verdict)
    assert member.worker.suspect
    assert routable(roster) == ["a:1", "b:1"]
    fail(roster, member, 1, verdict, b"last")
    assert not member.worker.suspect
    assert routable(roster) == ["b:1"]
    world.now += 10
    roster.breakers.tick()
    assert member.worker.suspect
    assert routable(roster) == ["a:1", "b:1"]
    roster.breakers.attempt_started(member, b"trial")
    assert routable(roster) == ["b:1"]
    roster.breakers.judge(member, Verdict.OK, b"trial")
    assert not member.worker.suspect
    assert routable(roster) == ["a:1", "b:1"]
    assert [line.removeprefix("worker http://a:1 (mixed) ") for line in caplog.messages[-4:]] == [
        f"gets no requests, its breaker is open: 5 failures in a row, it {verdict.value}",
        "may be tried: its breaker is half open",
        "is being tried with one request",
        "is back: its breaker is closed",
    ]


@pytest.mark.parametrize("verdict", [Verdict.NEUTRAL, Verdict.OK])
def test_what_is_no_failure_never_counts(world, verdict):
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    fail(roster, member, 100, verdict)
    assert (member.worker.suspect, routable(roster)) == (False, ["a:1", "b:1"])


def test_a_poisonous_request_does_not_close_the_fleet(world):
    roster = world.roster()
    members = [healthy(roster, f"w{number}:1") for number in range(4)]
    for turn in range(20):
        for member in members[turn % 4 :] + members[: turn % 4]:
            if turn % 4 == 0 or member is not members[0]:
                roster.breakers.judge(member, Verdict.LOST, b"poison")
    assert routable(roster) == ["w1:1", "w2:1", "w3:1"]


def test_a_poisonous_request_is_no_trial(world):
    roster = world.roster()
    member, other = healthy(roster), healthy(roster, "b:1")
    fail(roster, member)
    world.now += 10
    roster.breakers.tick()
    roster.breakers.judge(other, Verdict.LOST, b"poison")
    roster.breakers.attempt_started(member, b"poison")
    roster.breakers.judge(member, Verdict.LOST, b"poison")
    assert member.breaker.state is BreakerState.HALF_OPEN


def test_all_refusals_of_one_outage_count_once(world):
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    for number in range(20):
        roster.refuse(member, Verdict.REFUSED, b"%d" % number)
    roster.record_probe(member, True)
    assert routable(roster) == ["a:1", "b:1"]


def test_a_worker_that_passes_probes_and_refuses_requests_is_taken_out(world):
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    for number in range(5):
        roster.refuse(member, Verdict.REFUSED, b"%d" % number)
        roster.record_probe(member, True)
    assert member.health.is_healthy
    assert routable(roster) == ["b:1"]


def test_a_passed_probe_and_a_heartbeat_change_nothing(world):
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    fail(roster, member)
    roster.record_probe(member, True)
    roster.heartbeat(member, instance())
    assert routable(roster) == ["b:1"]


def test_a_restart_closes_it(world):
    roster = world.roster()
    member, _ = healthy(roster), healthy(roster, "b:1")
    roster.learn_vitals(member, vitals(started_at=1.0))
    fail(roster, member)
    roster.learn_vitals(member, vitals(started_at=1.0))
    assert routable(roster) == ["b:1"]
    roster.learn_vitals(member, vitals(started_at=2.0))
    assert routable(roster) == ["a:1", "b:1"]
    assert world.forgotten == [member.worker]


@pytest.mark.parametrize("news", [{"incarnation": "2"}, {"connector_port": 9}, {"device_ids": ("1",)}])
@pytest.mark.parametrize("source", ["registered", "static"])
def test_a_registration_that_shows_another_process_closes_it(world, news, source):
    roster = world.roster()
    told = replace(instance(), registers=True, incarnation="1", connector_port=8)
    member, _ = roster.add(told, source, State.HEALTHY), healthy(roster, "b:1")
    fail(roster, member)
    roster.heartbeat(member, replace(told, is_paused=True))
    roster.heartbeat(member, told)
    assert (routable(roster), world.forgotten) == (["b:1"], [])
    roster.heartbeat(member, replace(told, **news))
    assert (routable(roster), world.forgotten) == (["a:1", "b:1"], [member.worker])


def test_the_first_registration_of_a_static_worker_is_no_restart(world):
    roster = world.roster()
    member, _ = roster.add(instance(), "static", State.HEALTHY), healthy(roster, "b:1")
    fail(roster, member)
    roster.heartbeat(member, replace(instance(), registers=True, connector_port=8, incarnation="1"))
    assert (routable(roster), world.forgotten) == (["b:1"], [])


def test_other_weights_make_the_prefixes_worthless_and_leave_the_breaker(world):
    roster = world.roster()
    told = replace(instance(), registers=True, version="1")
    member, _ = roster.add(told, "registered", State.HEALTHY), healthy(roster, "b:1")
    fail(roster, member)
    roster.heartbeat(member, replace(told, version="2"))
    assert (routable(roster), world.forgotten) == (["b:1"], [member.worker])


def test_a_worker_that_changes_its_role_stays_a_suspect(world):
    roster = world.roster()
    member = healthy(roster, role="prefill")
    fail(roster, member, 1)
    before = member.worker
    roster.change_role(member, "decode")
    assert member.worker is not before
    assert member.worker.suspect


def test_a_new_member_under_the_old_record_is_no_suspect(world):
    roster = world.roster()
    member = healthy(roster)
    fail(roster, member, 1)
    worker = member.worker
    worker.load.running_requests = 1
    roster.remove(member, "test")
    assert healthy(roster).worker is worker
    assert not worker.suspect
