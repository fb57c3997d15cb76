import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.rosters import Surroundings, healthy, routable

from warmroute.fleet.silence import SilenceRules
from warmroute.scheduling.worker import ROLES


@pytest.fixture
def world() -> Surroundings:
    return Surroundings()


def answer(member, times: int = 1, seconds: float = 0.5) -> None:
    member.worker.tally.first_tokens += times
    member.worker.tally.ttft_seconds += times * seconds


def wait_on(world, member, requests: int = 3) -> None:
    world.waiting[member.worker] = requests


def pass_time(world, roster, seconds: int, *answering, each: int = 5):
    """Seconds go by, one look in each, in which some members begin answers; returns who was found suspicious."""
    suspicious = []
    for _ in range(seconds):
        world.now += 1
        for member in answering:
            answer(member, each)
        suspicious += world.listen(roster)
    return suspicious


def test_a_worker_that_begins_no_answer_while_others_do_is_probed_soon_and_left_out_late(world, caplog):
    caplog.set_level(logging.INFO)
    roster = world.roster()
    silent, other = healthy(roster), healthy(roster, "b:1")
    world.listen(roster)
    wait_on(world, silent)
    wait_on(world, other)
    assert pass_time(world, roster, 5, other) == [silent]
    assert routable(roster) == ["a:1", "b:1"]
    assert pass_time(world, roster, 20, other) == []
    assert routable(roster) == ["b:1"]
    assert "3 requests wait there" in caplog.messages[-1]
    answer(silent)
    world.listen(roster)
    assert routable(roster) == ["a:1", "b:1"]
    assert caplog.messages[-1].endswith("is no longer stuck")


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_measured_by_its_own(world, role):
    """Answers of another role prove nothing."""
    roster = world.roster()
    silent, peer = healthy(roster, role=role), healthy(roster, "b:1", role)
    others = [healthy(roster, f"{other}:1", other) for other in ROLES if other != role]
    world.listen(roster)
    wait_on(world, silent)
    pass_time(world, roster, 30, *others)
    assert routable(roster, role) == ["a:1", "b:1"]
    pass_time(world, roster, 30, peer)
    assert routable(roster, role) == ["b:1"]


@pytest.mark.parametrize(("role", "left"), [("mixed", 1), ("prefill", 1), ("decode", 2)])
def test_a_single_request_proves_nothing_where_its_prompt_is_computed_elsewhere(world, role, left):
    roster = world.roster()
    silent, peer = healthy(roster, role=role), healthy(roster, "b:1", role)
    wait_on(world, silent, 1)
    pass_time(world, roster, 30, peer)
    assert len(routable(roster, role)) == left


def test_when_nobody_waits_there_any_more_it_is_back(world):
    roster = world.roster()
    silent, other = healthy(roster), healthy(roster, "b:1")
    wait_on(world, silent)
    pass_time(world, roster, 30, other)
    assert routable(roster) == ["b:1"]
    wait_on(world, silent, 0)
    world.listen(roster)
    assert routable(roster) == ["a:1", "b:1"]


def test_silence_proves_nothing_while_others_are_silent_too(world):
    roster = world.roster()
    for url in ("a:1", "b:1"):
        wait_on(world, healthy(roster, url))
    assert pass_time(world, roster, 600) == []
    assert routable(roster) == ["a:1", "b:1"]


def test_an_idle_worker_is_not_stuck(world):
    roster = world.roster()
    _, other = healthy(roster), healthy(roster, "b:1")
    assert pass_time(world, roster, 600, other) == []
    assert routable(roster) == ["a:1", "b:1"]


def test_where_answers_take_long_so_does_the_proof(world):
    """An answer that is no stream begins when it is complete."""
    roster = world.roster()
    slow, other = healthy(roster), healthy(roster, "b:1")
    answer(slow, 100, seconds=30.0)
    answer(other, 100, seconds=30.0)
    world.listen(roster)
    wait_on(world, slow)
    for _ in range(90):
        world.now += 1
        answer(other, 1, seconds=30.0)
        world.listen(roster)
    assert routable(roster) == ["a:1", "b:1"]


def test_at_most_half_of_a_pool_is_left_out(world):
    roster = world.roster()
    members = [healthy(roster, f"w{number}:1") for number in range(4)]
    for member in members[:3]:
        wait_on(world, member)
    pass_time(world, roster, 40, members[3])
    assert len(routable(roster)) == 2
    assert "w3:1" in routable(roster)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=120))
def test_who_has_begun_an_answer_within_the_time_is_never_stuck(seconds):
    world = Surroundings()
    roster = world.roster()
    member, other = healthy(roster), healthy(roster, "b:1")
    last_answer = world.now
    for waits, answers, others_answer in seconds:
        world.now += 1
        wait_on(world, member, int(waits))
        if answers or not waits:
            last_answer = world.now
        answer(member, int(answers))
        answer(other, 10 * others_answer)
        world.listen(roster)
        if world.now - last_answer < SilenceRules().stuck:
            assert member.stuck_since is None
