"""Stretches of blocks: who holds how much of a run, and what is remembered of that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmroute.scheduling.stretches import Stretches, steps_of


@given(st.lists(st.one_of(st.none(), st.integers(1, 7)), min_size=1, max_size=12))
def test_steps_tell_of_each_publisher_where_it_drops_out(owners: list[int | None]):
    steps = steps_of(owners)
    assert steps[0][0] == 0
    for bit in (1, 2, 4):
        held = next((offset for offset, owner in enumerate(owners) if not (owner or 0) & bit), len(owners))
        told = next((offset for offset, holders in steps if not holders & bit), len(owners))
        assert told == held


def test_the_stretches_that_were_remembered_first_go_first():
    stretches = Stretches(2, 4)
    for keys in ((1, 2), (3, 4), (5, 6)):
        stretches.remember(keys, ((0, 1),))
    assert set(stretches.by_key) == {3, 4, 5, 6}


def test_nothing_is_remembered_where_there_is_no_room():
    stretches = Stretches(4, 3)
    stretches.remember((1, 2, 3, 4), ((0, 1),))
    assert not stretches.by_key


def test_of_stretches_that_begin_alike_one_is_remembered():
    """So a block that comes or goes concerns one stretch only."""
    stretches = Stretches(2, 10)
    stretches.remember((1, 2), ((0, 1),))
    stretches.remember((1, 3), ((0, 1),))
    assert set(stretches.by_key) == {1, 2}
    stretches.forget(stretches.by_key[1])
    assert not stretches.by_key
    stretches.remember((1, 3), ((0, 1),))
    assert set(stretches.by_key) == {1, 3}


def test_blocks_whose_keys_come_up_twice_are_looked_up_one_by_one():
    """Keys have 64 bits of no cryptographic hash: a key that belonged to two stretches would be forgotten twice."""
    stretches = Stretches(2, 10)
    for keys in ((1, 2), (3, 2), (4, 4)):
        stretches.remember(keys, ((0, 1),))
    assert set(stretches.by_key) == {1, 2}
    stretches.forget(stretches.by_key[1])
    assert not stretches.by_key
