"""The cache against a naive one that keeps every rule by looking at everything."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warmroute.simulation.kv_cache import KvCache

CAPACITY = 8
PATHS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


def prefixes(path: list[int]) -> list[int]:
    """Numbers of the blocks on a path through a binary tree: a stand-in for chained hashes."""
    blocks, node = [], 1
    for step in path:
        node = 2 * node + step
        blocks.append(node)
    return blocks


class NaiveCache:
    """Remembers when each block was last let go, and sorts. Parents count as let go after their children."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[list[int], int]] = {}
        self.let_go: dict[int, tuple[int, int]] = {}
        self.clock = 0

    @property
    def pinned(self) -> set[int]:
        return {block for blocks, _ in self.runs.values() for block in blocks}

    @property
    def idle(self) -> set[int]:
        return set(self.let_go) - self.pinned

    @property
    def used(self) -> int:
        return len(self.pinned) + sum(private for _, private in self.runs.values())

    def match(self, blocks: list[int]) -> int:
        known = self.pinned | self.idle
        return next((count for count, block in enumerate(blocks) if block not in known), len(blocks))

    def shrink(self) -> None:
        while self.used + len(self.idle) > CAPACITY:
            oldest = min(self.idle, key=lambda block: self.let_go[block])
            del self.let_go[oldest]

    def end(self, run: int) -> None:
        blocks, _ = self.runs.pop(run)
        self.clock += 1
        for block in blocks:
            if block not in self.pinned:
                self.let_go[block] = (self.clock, -block.bit_length())


class CacheMachine(RuleBasedStateMachine):
    """Requests come, publish, grow and go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(CAPACITY * 16, 16)
        self.naive = NaiveCache()
        self.holds: dict[int, tuple[object, list[int]]] = {}
        self.count = 0

    @rule(path=PATHS, answer=st.integers(0, 3))
    def start(self, path: list[int], answer: int) -> None:
        blocks = prefixes(path)
        matched = blocks[: self.naive.match(blocks)]
        assert self.cache.match(blocks) == len(matched)
        total = len(blocks) + answer
        after = len(self.naive.pinned | set(matched)) + self.naive.used - len(self.naive.pinned) + total - len(matched)
        hold = self.cache.acquire(blocks, total)
        assert (hold is not None) == (after <= CAPACITY)
        if hold is None:
            return
        assert hold.matched == len(matched)
        self.count += 1
        self.holds[self.count] = (hold, blocks)
        self.naive.runs[self.count] = (matched, total - len(matched))
        self.naive.shrink()

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(self.holds)))
        hold, blocks = self.holds[run]
        held, private = self.naive.runs[run]
        new = blocks[len(held) :]
        hold.commit(new)
        self.naive.runs[run] = (held + new, private - len(new))

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(self.holds)))
        hold, _ = self.holds.pop(run)
        hold.release()
        self.naive.end(run)

    @invariant()
    def agrees(self) -> None:
        cached = {block for block in range(2, 2**7) if block in self.cache}
        assert cached == self.naive.pinned | self.naive.idle
        assert self.cache.used == self.naive.used
        assert self.cache.idle == len(self.naive.idle)

    @invariant()
    def stays_within_capacity(self) -> None:
        assert self.cache.used + self.cache.idle <= CAPACITY

    @invariant()
    def no_block_without_the_one_before_it(self) -> None:
        assert all(block // 2 in self.cache for block in range(4, 2**7) if block in self.cache)

    def teardown(self) -> None:
        for hold, _ in self.holds.values():
            hold.release()
        assert self.cache.used == 0


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestAgainstNaiveCache = CacheMachine.TestCase


def fill(cache: KvCache, blocks: list[int]) -> None:
    hold = cache.acquire(blocks, len(blocks))
    assert hold is not None
    hold.commit(blocks[hold.matched :])
    hold.release()


def test_the_tail_is_evicted_before_the_beginning():
    """A cache that needs two blocks takes the last two of the oldest prefix."""
    cache = KvCache(4 * 16, 16)
    fill(cache, [1, 2, 3, 4])
    fill(cache, [11, 12])
    assert cache.match([1, 2, 3, 4]) == 2
    assert cache.match([11, 12]) == 2
    assert cache.evictions == 2


def test_using_a_prefix_makes_it_young():
    """What was used last goes last, whatever was computed last."""
    cache = KvCache(4 * 16, 16)
    fill(cache, [1, 2])
    fill(cache, [11, 12])
    fill(cache, [1, 2])
    fill(cache, [21, 22])
    assert (cache.match([1, 2]), cache.match([11, 12])) == (2, 0)


def test_running_requests_are_never_evicted():
    """A request that finds no room is refused, and nothing has changed then."""
    cache = KvCache(4 * 16, 16)
    hold = cache.acquire([1, 2], 3)
    assert cache.acquire([11, 12], 2) is None
    assert (cache.used, cache.idle) == (3, 0)
    hold.commit([1, 2])
    hold.release()
    assert cache.acquire([11, 12], 2) is not None
    assert cache.match([1, 2]) == 2


def test_capacity_is_in_whole_blocks():
    assert KvCache(100, 16).capacity == 6


def test_no_more_can_be_published_than_is_held():
    hold = KvCache(64, 16).acquire([1], 1)
    with pytest.raises(ValueError, match="2 blocks to publish, 1 held"):
        hold.commit([1, 2])


def test_releasing_twice_gives_back_once():
    cache = KvCache(64, 16)
    hold = cache.acquire([1, 2], 3)
    hold.commit([1, 2])
    hold.release()
    hold.release()
    assert (cache.used, cache.idle) == (0, 2)
