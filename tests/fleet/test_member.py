import pytest
from tests.fleet.rosters import Surroundings, instance

from warmroute.fleet.states import State


@pytest.mark.parametrize(
    ("health", "flags", "shown"),
    [
        (State.HEALTHY, (), "healthy"),
        (State.UNHEALTHY, (), "unhealthy"),
        (State.STARTING, (), "starting"),
        (State.HEALTHY, ("paused",), "paused"),
        (State.UNHEALTHY, ("paused",), "unhealthy"),
        (State.HEALTHY, ("drained",), "draining"),
        (State.HEALTHY, ("leaving", "paused"), "draining"),
        (State.UNHEALTHY, ("leaving",), "draining"),
    ],
)
def test_the_one_word_and_whether_it_gets_requests(health, flags, shown):
    member = Surroundings().roster().add(instance(), "registered", health)
    for flag in flags:
        setattr(member, flag, True)
    assert member.state == shown
    assert member.routable is (shown == "healthy")


@pytest.mark.parametrize(
    ("heartbeat", "passed", "expired"), [(0, 0, True), (0, 50, False), (50, 0, False), (39, 39, True), (40, 0, False)]
)
def test_a_registered_worker_expires_without_heartbeat_and_without_passed_probe(heartbeat, passed, expired):
    member = Surroundings().roster().add(instance(), "registered", State.HEALTHY)
    member.last_heartbeat, member.last_passed = heartbeat, passed
    assert member.has_expired(100.0, 60.0) is expired


@pytest.mark.parametrize("source", ["static", "added"])
def test_a_wanted_worker_never_expires(source):
    member = Surroundings().roster().add(instance(), source)
    assert not member.has_expired(1e9, 60.0)
