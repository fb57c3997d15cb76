from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.blame import Blame


def test_a_request_that_fails_everywhere_counts_for_the_first():
    blame = Blame()
    assert [blame.falls_on(worker, b"poison", 1.0) for worker in ("a", "b", "c", "a")] == [True, False, False, True]
    assert blame.falls_on("b", b"another", 1.0)


def test_a_name_may_be_used_again_after_a_while():
    blame = Blame(keep=60.0)
    assert blame.falls_on("a", b"1", 0.0)
    assert not blame.falls_on("b", b"1", 60.0)
    assert blame.falls_on("b", b"1", 60.1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.floats(0, 20)), max_size=80))
def test_it_keeps_a_bounded_number_and_excuses_only_who_came_later(failures):
    blame = Blame(limit=5, keep=60.0)
    now = 0.0
    charged: dict[int, set[str]] = {}
    for worker, request, seconds in failures:
        now += seconds
        others = charged.get(request, set()) - {worker}
        if blame.falls_on(worker, b"%d" % request, now):
            charged.setdefault(request, set()).add(worker)
        else:
            assert others
        assert len(blame._charged) <= 5
