"""Groups of prompts that begin alike: bounded, complete, and divided where that tells most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.pools import SMALL_LADDER, chain, make_worker

from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.recent_prefixes import (
    MAX_ENTRIES,
    MAX_LEVELS,
    PrefixGroup,
    PrefixUse,
    group_prefixes,
)
from warmroute.scheduling.worker import Worker


def index_of(*placements: tuple[Worker, str]) -> PrefixIndex:
    index = PrefixIndex(SMALL_LADDER, 1 << 24, 0)
    for serial, (worker, prompt) in enumerate(placements):
        index.claim(worker, chain(prompt), float(serial), serial)
    return index


def test_prompts_are_told_apart_by_how_they_begin():
    a, b = make_worker("a"), make_worker("b")
    groups = group_prefixes(index_of((a, "one"), (b, "two"), (b, "two!")).recent_uses())
    assert [(group.hash, group.tokens) for group in groups] == [
        (chain("two")[0], {"b": 1 + 1 + 2 + 4}),
        (chain("one")[0], {"a": 1 + 1 + 2}),
    ]


def test_what_all_begin_with_is_divided_where_they_part():
    a, b = make_worker("a"), make_worker("b")
    groups = group_prefixes(index_of((a, "ss1"), (b, "ss2")).recent_uses())
    assert {group.hash for group in groups} == {chain("ss1")[2], chain("ss2")[2]}
    assert sorted(worker for group in groups for worker in group.tokens) == ["a", "b"]


def test_an_index_without_entries_has_no_groups():
    assert group_prefixes(index_of().recent_uses()) == []


def test_the_sample_is_of_what_was_used_last_and_bounded():
    worker = make_worker("w", cache_tokens=1 << 20)
    index = PrefixIndex(SMALL_LADDER, 1 << 24, 0)
    for number in range(MAX_ENTRIES + 100):
        index.claim(worker, chain([number]), float(number), number)
    uses = index.recent_uses()
    assert len(uses) == MAX_ENTRIES
    assert uses[0].path == (chain([MAX_ENTRIES + 99])[0],)


def test_a_long_path_is_cut_short():
    worker = make_worker("w")
    index = index_of(*[(worker, "x" * depth) for depth in range(1, 60)])
    uses = index.recent_uses()
    assert len(uses) > MAX_LEVELS
    assert max(len(use.path) for use in uses) == MAX_LEVELS


uses = st.lists(
    st.builds(
        PrefixUse,
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda way: tuple(chain(way))),
        st.integers(1, 100),
    ),
    max_size=40,
)


@given(uses, st.integers(1, 10))
def test_no_more_groups_than_asked_for_and_each_once(found: list[PrefixUse], most: int):
    groups = group_prefixes(found, most)
    assert len(groups) <= most
    assert len({group.hash for group in groups}) == len(groups)
    everything = sum(use.tokens for use in found)
    # What ends where a group is divided is in none of its parts.
    assert sum(group.total for group in groups) <= everything
    assert sum(group.total for group in group_prefixes(found, 1)) == everything
    by_size = [group.total for group in groups if group.hash is not None]
    assert by_size == sorted(by_size, reverse=True)


def test_the_rest_is_one_group():
    found = [PrefixUse("w", (number,), 10 + number) for number in range(5)]
    groups = group_prefixes(found, 3)
    assert groups == [PrefixGroup(4, {"w": 14}), PrefixGroup(3, {"w": 13}), PrefixGroup(None, {"w": 10 + 11 + 12})]
