from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.rosters import Surroundings, healthy, routable

from warmroute.fleet.verdict import Verdict


def broken_fleet(size: int, broken: list[int]):
    world = Surroundings()
    roster = world.roster()
    members = [healthy(roster, f"w{number}:1") for number in range(size)]
    for turn, number in enumerate(broken):
        world.now += 1
        for request in range(5):
            roster.breakers.judge(members[number], Verdict.SERVER_ERROR, b"%d %d" % (turn, request))
    return world, roster, members


def test_half_of_a_pool_is_ejected_at_most_and_the_first_are():
    _, roster, _ = broken_fleet(4, [2, 0, 1, 3])
    assert routable(roster) == ["w1:1", "w3:1"]


def test_a_worker_that_is_alone_is_never_ejected():
    _, roster, _ = broken_fleet(1, [0])
    assert routable(roster) == ["w0:1"]


def test_the_half_is_that_of_those_who_can_serve_at_all():
    _, roster, members = broken_fleet(4, [0, 1])
    roster.record_probe(members[2], False, "HTTP 503")
    roster.record_probe(members[3], False, "HTTP 503")
    assert routable(roster) == ["w1:1"]


def test_refused_connections_and_failed_probes_know_no_half():
    _, roster, members = broken_fleet(3, [])
    roster.refuse(members[0], Verdict.REFUSED, b"1")
    roster.refuse(members[1], Verdict.CONNECT_TIMEOUT, b"1")
    roster.record_probe(members[2], False, "no answer within 5 s", timed_out=True)
    assert routable(roster) == ["w1:1", "w2:1"]  # nobody is left but those who were late once
    roster.record_probe(members[2], False, "no answer within 5 s", timed_out=True)
    roster.record_probe(members[1], False, "no answer within 5 s", timed_out=True)
    assert routable(roster) == []


def test_one_probe_without_an_answer_takes_a_worker_out_unless_nobody_else_is_left():
    _, roster, members = broken_fleet(2, [])
    roster.record_probe(members[0], False, "no answer within 5 s", timed_out=True)
    assert routable(roster) == ["w1:1"]
    roster.record_probe(members[1], False, "HTTP 503")
    assert routable(roster) == ["w0:1"]
    roster.hold(members[0], True)
    assert routable(roster) == []
    roster.hold(members[0], False)
    roster.refuse(members[0], Verdict.REFUSED, b"1")
    assert routable(roster) == []
    roster.record_probe(members[0], True)
    roster.record_probe(members[0], False, "no answer within 5 s", timed_out=True)
    roster.record_probe(members[0], False, "HTTP 503")
    assert routable(roster) == []


@given(
    st.integers(1, 7).flatmap(lambda size: st.tuples(st.just(size), st.permutations(range(size)))), st.integers(0, 7)
)
def test_the_pool_keeps_the_sound_and_at_least_half(fleet, count):
    size, order = fleet
    broken = list(order)[:count]
    _, roster, _ = broken_fleet(size, broken)
    left = routable(roster)
    assert {f"w{number}:1" for number in range(size) if number not in broken} <= set(left)
    assert len(left) == max(size - len(broken), size - size // 2)
