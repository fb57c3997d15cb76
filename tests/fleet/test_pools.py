from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.rosters import Surroundings, healthy, routable

from warmroute.fleet.states import State


def test_a_request_goes_to_the_workers_that_list_its_model():
    roster = Surroundings().roster()
    healthy(roster, "a:1", models=("m", "n"))
    healthy(roster, "b:1", models=("n",))
    healthy(roster, "c:1")
    assert routable(roster, model="m") == ["a:1"]
    assert routable(roster, model="n") == ["a:1", "b:1"]


def test_a_model_that_nobody_lists_goes_to_the_whole_role():
    roster = Surroundings().roster()
    healthy(roster, "a:1", models=("m",))
    healthy(roster, "b:1")
    healthy(roster, "p:1", "prefill", models=("x",))
    assert routable(roster, model="x") == ["a:1", "b:1"]
    assert routable(roster, model=None) == ["a:1", "b:1"]
    assert routable(roster, "prefill", "m") == ["p:1"]
    assert routable(roster, "decode", "m") == []


def test_a_model_whose_only_worker_is_down_is_not_sent_astray():
    roster = Surroundings().roster()
    member = healthy(roster, "a:1", models=("m",))
    healthy(roster, "b:1", models=("n",))
    roster.record_probe(member, False, "down")
    assert routable(roster, model="m") == []
    roster.remove(member, "gone")
    assert routable(roster, model="m") == ["b:1"]


def test_only_a_known_list_can_say_that_a_model_is_unknown():
    roster = Surroundings().roster()
    healthy(roster, "a:1")
    assert roster.pools.knows_model("mixed", "x")
    healthy(roster, "b:1", models=("m",))
    assert not roster.pools.knows_model("mixed", "x")
    assert roster.pools.knows_model("mixed", "m")
    assert roster.pools.knows_model("mixed", None)
    assert roster.pools.knows_model("decode", "x")


def test_a_pool_is_the_same_object_until_something_changes():
    roster = Surroundings().roster()
    member = healthy(roster, "a:1", models=("m",))
    first = roster.pools.pool("mixed", "m")
    assert roster.pools.pool("mixed", "m") is first
    assert roster.pools.pool("mixed", "other") is roster.pools.pool("mixed", "another")
    roster.hold(member, True)
    assert roster.pools.pool("mixed", "m") is not first


def test_pairs_are_the_same_object_until_something_changes():
    roster = Surroundings().roster()
    member = healthy(roster, "p:1", role="prefill", models=("m",))
    healthy(roster, "d:1", role="decode", models=("m",))
    first = roster.pools.pairs("m")
    assert [row.worker.id for row in first.decode.candidates] == ["d:1"]
    assert roster.pools.pairs("m") is first
    assert roster.pools.pairs("other") is roster.pools.pairs(None)
    roster.hold(member, True)
    assert roster.pools.pairs("m") is not first
    healthy(roster, "d:2", role="decode", models=("m",))
    assert [row.worker.id for row in roster.pools.pairs("m").decode.candidates] == ["d:1", "d:2"]


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=12))
def test_the_order_is_that_of_arrival_whatever_goes_up_and_down(order, flaps):
    roster = Surroundings().roster()
    for number in order:
        healthy(roster, f"w{number}:1", models=("m",))
    for number in flaps:
        member = roster.members[f"w{number}:1"]
        roster.record_probe(member, member.health.state is not State.HEALTHY)
    expected = [f"w{n}:1" for n in order if roster.members[f"w{n}:1"].routable]
    assert routable(roster, model="m") == expected
