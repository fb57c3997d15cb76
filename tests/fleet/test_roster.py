import gc
import logging
from dataclasses import replace

import pytest
from tests.fleet.rosters import Surroundings, healthy, instance, routable, vitals

from warmroute.fleet.roster import DEFAULT_CACHE_TOKENS
from warmroute.fleet.states import State
from warmroute.fleet.verdict import Verdict


@pytest.fixture
def world() -> Surroundings:
    return Surroundings()


def test_a_static_worker_is_not_routable_before_its_first_pass(world):
    roster = world.roster()
    member = roster.add(instance(), "static")
    roster.record_probe(member, False, "refused")
    assert (member.state, routable(roster)) == ("starting", [])
    roster.record_probe(member, True)
    assert (member.state, routable(roster)) == ("healthy", ["a:1"])


def test_an_id_is_taken_once(world):
    roster = world.roster()
    healthy(roster)
    with pytest.raises(ValueError, match="a:1"):
        roster.add(instance(), "static")


def test_an_unhealthy_worker_keeps_record_and_prefixes(world):
    roster = world.roster()
    member = healthy(roster)
    worker = member.worker
    roster.record_probe(member, False, "HTTP 503")
    assert routable(roster) == []
    roster.record_probe(member, True)
    assert member.worker is worker
    assert world.forgotten == []


def test_pause_and_resume_come_with_heartbeats(world):
    roster = world.roster()
    member = healthy(roster)
    roster.heartbeat(member, instance(is_paused=True))
    assert (member.state, routable(roster)) == ("paused", [])
    roster.heartbeat(member, instance())
    assert (member.state, routable(roster)) == ("healthy", ["a:1"])


def test_an_operators_hold_outlives_heartbeats(world):
    roster = world.roster()
    member = healthy(roster)
    roster.hold(member, True)
    world.now += 30
    roster.heartbeat(member, instance())
    assert (member.state, member.last_heartbeat) == ("draining", world.now)
    roster.hold(member, False)
    assert member.state == "healthy"


def test_heartbeats_during_a_leave_change_nothing(world):
    roster = world.roster()
    member = healthy(roster)
    member.worker.load.running_requests = 1
    roster.leave(member, for_good=False)
    worker, before = member.worker, world.changes
    roster.heartbeat(member, instance(role="decode", is_paused=True))
    assert (member.worker, member.paused, world.changes) == (worker, False, before)


def test_a_leaving_worker_is_finished_when_nothing_runs(world):
    roster = world.roster()
    member = healthy(roster)
    member.worker.load.running_requests = 2
    roster.leave(member, for_good=False)
    assert (routable(roster), roster.finished()) == ([], [])
    member.worker.load.running_requests = 0
    assert roster.finished() == [member]


def test_an_operator_can_call_a_leaving_worker_back(world):
    roster = world.roster()
    member = healthy(roster)
    roster.leave(member, for_good=True)
    roster.stay(member)
    assert (member.wanted, roster.finished(), routable(roster)) == (True, [], ["a:1"])


def test_removal_forgets_the_prefixes(world):
    roster = world.roster()
    member = healthy(roster)
    member.worker.report = vitals(3).report
    roster.remove(member, "test")
    assert world.forgotten == [member.worker]
    assert member.worker.report is None
    assert (member.state, dict(roster.members), routable(roster)) == ("gone", {}, [])


def test_a_worker_that_returns_with_open_leases_keeps_its_record(world):
    roster = world.roster()
    first = healthy(roster)
    first.worker.load.running_requests = 1
    roster.remove(first, "test")
    assert first.worker.departed
    assert healthy(roster).worker is first.worker
    assert not first.worker.departed


def test_a_worker_that_returns_without_leases_is_a_new_record(world):
    roster = world.roster()
    first = healthy(roster)
    roster.remove(first, "test")
    assert healthy(roster).worker is not first.worker


def test_a_record_that_nobody_holds_is_not_kept(world):
    roster = world.roster()
    roster.remove(healthy(roster), "test")
    world.forgotten.clear()
    gc.collect()
    assert len(roster._departed) == 0


def test_a_change_of_role_leaves_the_old_record_to_its_leases(world):
    roster = world.roster()
    member = healthy(roster, role="prefill")
    old = member.worker
    old.load.running_requests = 1
    roster.heartbeat(member, instance(role="decode"))
    assert member.worker is not old
    assert (member.role, member.running, old.role, old.load.running_requests) == ("decode", 0, "prefill", 1)
    assert world.forgotten == [old]
    assert (old.departed, member.worker.departed) == (True, False)
    assert (routable(roster, "prefill"), routable(roster, "decode")) == ([], ["a:1"])
    roster.heartbeat(member, instance(role="prefill"))
    assert member.worker is old
    assert not old.departed


def test_a_refusal_counts_only_against_the_members_own_record(world):
    roster = world.roster()
    member = healthy(roster, role="prefill")
    orphan = member.worker
    roster.heartbeat(member, instance(role="decode"))
    assert roster.of(orphan) is None
    assert member.routable
    assert roster.of(member.worker) is member
    roster.refuse(member, Verdict.REFUSED, b"1")
    assert (member.state, routable(roster, "decode")) == ("unhealthy", [])


def test_a_report_is_dropped_when_it_is_too_old(world):
    roster = world.roster()
    member = healthy(roster)
    roster.learn_vitals(member, vitals(running=7))
    world.now += 10
    roster.drop_old_reports(max_age=10)
    assert member.worker.report is not None
    assert member.worker.report.running_requests == 7
    world.now += 0.1
    roster.drop_old_reports(max_age=10)
    assert member.worker.report is None


def test_a_restart_forgets_the_prefixes_once(world):
    roster = world.roster()
    member = healthy(roster)
    assert not roster.learn_vitals(member, vitals(started_at=1.0))
    assert not roster.learn_vitals(member, vitals(started_at=1.0))
    assert roster.learn_vitals(member, vitals(started_at=2.0))
    assert not roster.learn_vitals(member, vitals(started_at=2.0))
    assert world.forgotten == [member.worker]


def test_the_cache_is_as_large_as_configured_else_told_else_assumed(world):
    told, untold = vitals(kv_cache_tokens=20_000), vitals()
    for rules, seen, expected in [
        ({"cache_tokens": 0}, told, 0),
        ({"cache_tokens": 7}, told, 7),
        ({}, told, 20_000),
        ({}, untold, DEFAULT_CACHE_TOKENS),
    ]:
        roster = world.roster(**rules)
        member = healthy(roster)
        assert member.worker.cache_tokens == rules.get("cache_tokens", DEFAULT_CACHE_TOKENS)
        roster.learn_vitals(member, seen)
        assert member.worker.cache_tokens == expected


def test_expired_names_the_silent_ones(world):
    roster = world.roster()
    silent, beating, probed = (healthy(roster, f"{name}:1") for name in "abc")
    world.now += 61
    roster.heartbeat(beating, instance("b:1"))
    roster.record_probe(probed, True)
    assert roster.expired(60.0) == [silent]


def test_one_line_per_change_and_none_per_probe(world, caplog):
    caplog.set_level(logging.INFO)
    roster = world.roster()
    member = roster.add(instance(), "static")
    for passed in (False, False, True, True, False, False):
        roster.record_probe(member, passed, "HTTP 503")
    roster.heartbeat(member, instance(is_paused=True))
    roster.heartbeat(member, instance(is_paused=True))
    roster.remove(member, "test")
    assert [record.getMessage() for record in caplog.records] == [
        "worker http://a:1 (mixed) joins as static, starting",
        "worker http://a:1 (mixed) is waited for: HTTP 503; start it, or remove it with DELETE /workers/a:1",
        "worker http://a:1 (mixed) is healthy",
        "worker http://a:1 (mixed) is unhealthy: HTTP 503; it is probed until it is back, its own log should tell more",
        "worker http://a:1 (mixed) is paused",
        "worker http://a:1 (mixed) is removed: test",
    ]


def test_the_loss_of_a_worker_is_a_warning_and_its_return_is_not(world, caplog):
    caplog.set_level(logging.INFO)
    roster = world.roster()
    member = healthy(roster)
    caplog.clear()
    roster.record_probe(member, False, "HTTP 503")
    roster.record_probe(member, True)
    roster.refuse(member, Verdict.REFUSED, b"1")
    roster.remove(member, "gone", logging.WARNING)
    assert [(record.levelname, record.getMessage().partition(") ")[2]) for record in caplog.records] == [
        ("WARNING", "is unhealthy: HTTP 503; it is probed until it is back, its own log should tell more"),
        ("INFO", "is healthy"),
        (
            "WARNING",
            "is unhealthy: it refused a connection; it is probed until it is back, its own log should tell more",
        ),
        ("WARNING", "is removed: gone"),
    ]


def test_models_that_stay_the_same_are_no_change(world):
    roster = world.roster()
    member = healthy(roster, models=("m",))
    before = world.changes
    roster.learn_models(member, ({"id": "m", "created": 2},))
    assert world.changes == before
    roster.learn_models(member, None)
    assert (world.changes, member.models) == (before + 1, None)


def test_a_worker_registered_healthy_starts_healthy(world):
    assert world.roster().add(instance(), "registered", State.HEALTHY).state == "healthy"


def test_a_kv_connector_that_metrics_tell_changes_the_pairs(world):
    roster = world.roster(in_pairs=True)
    member = healthy(roster, role="prefill")
    roster.recognise(member, vitals(), None)
    pairs = roster.pools.pairs(None)
    roster.recognise(member, replace(vitals(), kv_connector="NixlConnector"), None)
    assert member.peer.kv_connector == "NixlConnector"
    assert roster.pools.pairs(None) is not pairs


def test_metrics_tell_more_of_an_engine_than_the_owner_of_its_models(world):
    roster = world.roster()
    member = healthy(roster)
    roster.recognise(member, vitals(), ({"id": "m", "owned_by": "sglang"},))
    assert member.dialect.name == "vllm"


def test_what_an_engine_is_changes_routing_only_when_it_is_news(world):
    roster = world.roster(in_pairs=True)
    member = healthy(roster, role="prefill")
    assert (member.routable, routable(roster, "prefill")) == (False, [])
    roster.recognise(member, vitals(), None)
    before = world.changes
    assert routable(roster, "prefill") == ["a:1"]
    roster.recognise(member, vitals(), None)
    roster.heartbeat(member, instance(role="prefill"))
    assert world.changes == before
