"""The cache of runs does what the cache of single blocks does, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.replay.cache import Hold, PathCache, shared_depth
from warmroute.simulation.kv_cache import Hold as BlockHold
from warmroute.simulation.kv_cache import KvCache

SIZE = 16


def chain(letters: str) -> list[int]:
    """Chained ids: equal for equal prefixes only."""
    return [hash(letters[: at + 1]) & 0xFFFFFFFF for at in range(len(letters))]


def ends(blocks: int) -> range:
    return range(0, (blocks + 1) * SIZE, SIZE)


def store(cache: PathCache, letters: str) -> None:
    blocks = chain(letters)
    hold = cache.acquire(blocks, ends(len(blocks)), len(blocks) * SIZE)
    assert hold is not None
    cache.commit(hold, blocks, ends(len(blocks)), len(blocks))
    cache.release(hold)


def matched(cache: PathCache, letters: str) -> int:
    return cache.match(chain(letters), ends(len(letters))) // SIZE


def test_a_prompt_is_found_by_its_longest_prefix() -> None:
    cache = PathCache(100 * SIZE)
    store(cache, "abcdef")
    store(cache, "abcxyz")
    assert [matched(cache, text) for text in ("abcdef", "abcd", "abcxy?", "ab?", "?bc")] == [6, 4, 5, 2, 0]


def test_the_tail_of_the_oldest_goes_first() -> None:
    cache = PathCache(6 * SIZE)
    store(cache, "abcd")
    store(cache, "xyzw")
    assert (matched(cache, "abcd"), matched(cache, "xyzw")) == (2, 4)
    assert cache.evicted_tokens == 2 * SIZE


def test_what_is_in_use_makes_no_room() -> None:
    cache = PathCache(6 * SIZE)
    first = cache.acquire(chain("abcd"), ends(4), 4 * SIZE)
    assert first is not None
    assert cache.acquire(chain("xyz"), ends(3), 3 * SIZE) is None
    cache.commit(first, chain("abcd"), ends(4), 4)
    second = cache.acquire(chain("abcdef"), ends(6), 6 * SIZE)
    assert second is not None
    assert second.matched_tokens == 4 * SIZE


def test_blocks_may_differ_in_size() -> None:
    cache = PathCache(1000)
    blocks, sizes = chain("abc"), [0, 100, 150, 400]
    hold = cache.acquire(blocks, sizes, 400)
    assert hold is not None
    cache.commit(hold, blocks, sizes, 3)
    cache.release(hold)
    assert cache.match(chain("abx"), [0, 100, 150, 300]) == 150
    # Room for 800 more: the last block, of 250 tokens, makes it.
    assert cache.acquire(chain("z"), [0, 800], 800) is not None
    assert cache.match(blocks, sizes) == 150


@dataclass
class Pair:
    """Both caches, and what is held in them."""

    runs: PathCache
    blocks: KvCache
    held: list[tuple[str, Hold, BlockHold]] = field(default_factory=list)


texts = st.text("ab", min_size=1, max_size=9)
steps = st.lists(st.tuples(texts, st.integers(0, 3), st.integers(0, 5)), max_size=40)


@settings(max_examples=300, deadline=None)
@given(st.integers(4, 24), steps)
def test_it_agrees_with_the_cache_of_single_blocks(capacity: int, steps: list[tuple[str, int, int]]) -> None:
    pair = Pair(PathCache(capacity * SIZE), KvCache(capacity * SIZE, SIZE))
    for text, more, at in steps:
        blocks = chain(text)
        assert pair.runs.match(blocks, ends(len(blocks))) == pair.blocks.match(blocks) * SIZE
        runs = pair.runs.acquire(blocks, ends(len(blocks)), (len(blocks) + more) * SIZE)
        single = pair.blocks.acquire(blocks, len(blocks) + more)
        assert (runs is None) == (single is None)
        if runs is not None and single is not None:
            assert runs.matched_tokens == single.matched * SIZE
            pair.runs.commit(runs, blocks, ends(len(blocks)), len(blocks))
            single.commit(blocks[single.matched :])
            pair.held.append((text + "c" * more, runs, single))
        if len(pair.held) > at:
            whole, runs, single = pair.held.pop(at)
            blocks = chain(whole)
            single.commit(blocks[runs.depth :])
            pair.runs.commit(runs, blocks, ends(len(blocks)), len(blocks))
            pair.runs.release(runs)
            single.release()
        assert pair.runs.idle == pair.blocks.idle * SIZE
        assert pair.runs.pinned + pair.runs.private == pair.blocks.used * SIZE
        assert pair.runs.evicted_tokens == pair.blocks.evictions * SIZE


@given(texts, texts)
def test_the_shared_depth_of_two_prompts(one: str, other: str) -> None:
    depth = shared_depth(chain(one), chain(other))
    assert one[:depth] == other[:depth]
    assert one[depth : depth + 1] != other[depth : depth + 1] or depth == min(len(one), len(other))


def test_a_conversation_stays_one_run() -> None:
    cache = PathCache(1000 * SIZE)
    for turn in range(1, 50):
        store(cache, "abcdefghij"[: turn % 10 + 1] if turn < 10 else "abcdefghij" + "k" * turn)
    assert len(cache._runs) == 1


@pytest.mark.parametrize("capacity", [8, 9])
def test_giving_back_leaves_nothing_pinned(capacity: int) -> None:
    cache = PathCache(capacity * SIZE)
    for text in ("abc", "abd", "xyz", "abcdef"):
        store(cache, text)
    assert (cache.pinned, cache.private) == (0, 0)
    assert cache.idle <= cache.capacity
