"""The exact index over several workers and ranks."""

from __future__ import annotations

import gc
import tracemalloc

from tests.support.kv_events import SIZE, ids, matches, prompt, removed, stored
from tests.support.pools import make_worker

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.scheduling.exact_index import BLOCK_BYTES, Coverage, ExactIndex
from warmroute.scheduling.kv_events import Stored


def make_index() -> ExactIndex:
    return ExactIndex(1 << 30)


def test_every_worker_gets_its_own_longest_match():
    index = make_index()
    for worker, blocks in (("a", "pqrs"), ("b", "pqx"), ("c", "p"), ("d", "z")):
        index.source(make_worker(worker)).apply([stored(blocks)])
    assert matches(index, prompt("pqrst")) == {"a": 4, "b": 2, "c": 1}
    assert matches(index, prompt("z", tail=0)) == {}


def test_workers_with_different_block_sizes():
    """Each is matched in blocks of its own size."""
    index = make_index()
    small, large = (index.source(make_worker(name)) for name in ("small", "large"))
    small.apply([stored("abc")])
    large.apply([Stored([1], None, pack_token_ids(ids("ab")), 2 * SIZE)])
    assert {worker.id: tokens for worker, tokens in index.match(prompt("abcd")).items()} == {
        "small": 3 * SIZE,
        "large": 2 * SIZE,
    }


def test_a_block_lost_in_the_middle_counts_for_all_prompts_that_begin_alike():
    """What was remembered of either prompt is no longer so, also where only one of them was looked up since."""
    index = ExactIndex(1 << 30, stretch=4)
    a, b = (index.source(make_worker(name)) for name in "ab")
    for source in (a, b):
        source.apply([stored("pqrs"), stored("pqxy", start=2)])
    for _ in range(2):
        for blocks in ("pqrs", "pqxy"):
            assert matches(index, prompt(blocks)) == {"a": 4, "b": 4}
    a.apply([removed("pq")])
    for blocks in ("pqxy", "pqrs"):
        assert matches(index, prompt(blocks)) == {"a": 1, "b": 4}
    a.apply([stored("pq", start=1)])
    for blocks in ("pqrs", "pqxy"):
        assert matches(index, prompt(blocks)) == {"a": 4, "b": 4}


def test_what_a_worker_got_since_a_prompt_was_looked_up_counts():
    index = ExactIndex(1 << 30, stretch=2)
    a, b = (index.source(make_worker(name)) for name in "ab")
    a.apply([stored("pqrstu")])
    b.apply([stored("pqr")])
    assert matches(index, prompt("pqrstu")) == {"a": 6, "b": 3}
    b.apply([stored("pqrs", start=3)])
    assert matches(index, prompt("pqrstu")) == {"a": 6, "b": 4}
    b.apply([removed("pqr"), stored("pqrstu", start=4)])
    assert matches(index, prompt("pqrstu")) == {"a": 6, "b": 2}


def test_of_several_ranks_it_is_the_mean():
    """Which of them gets the request, the engine decides."""
    index, worker = make_index(), make_worker()
    for rank, blocks in enumerate(("abcd", "ab", "x")):
        index.source(worker, rank).apply([stored(blocks)])
    assert index.match(prompt("abcdef")) == {worker: (4 + 2) * SIZE // 3}
    assert index.source(worker, 1) is index.source(worker, 1)


def test_ranks_are_kept_apart():
    index, worker = make_index(), make_worker()
    one, two = index.source(worker, 0), index.source(worker, 1)
    one.apply([stored("ab")])
    two.apply([stored("ab"), removed("ab", "a")])
    assert index.match(prompt("abc")) == {worker: SIZE}


def test_a_worker_that_is_gone_leaves_nothing():
    index = make_index()
    workers = [make_worker(name) for name in "ab"]
    for worker in workers:
        for rank in range(2):
            index.source(worker, rank).apply([stored("pqr")])
    index.drop(workers[0])
    assert matches(index, prompt("pqrs")) == {"b": 3}
    index.drop(workers[1])
    assert index.match(prompt("pqrs")) == {}
    assert index.held == index.size_bytes == 0
    index.drop(workers[1])
    # Its place is taken by another one, which inherits nothing.
    index.source(make_worker("c"))
    assert index.match(prompt("pqrs")) == {}


def test_coverage_is_that_of_the_rank_of_which_least_is_known():
    index, worker = make_index(), make_worker()
    assert index.coverage(worker) is Coverage.NONE
    one, two = index.source(worker, 0), index.source(worker, 1)
    assert index.coverage(worker) is Coverage.NONE
    index.cover(one, Coverage.COMPLETE)
    assert index.coverage(worker) is Coverage.NONE
    index.cover(two, Coverage.PARTIAL)
    assert index.coverage(worker) is Coverage.PARTIAL
    index.cover(two, Coverage.COMPLETE)
    assert index.coverage(worker) is Coverage.COMPLETE
    one.apply([stored("ab")])
    index.clear(worker)
    assert index.coverage(worker) is Coverage.NONE
    assert index.match(prompt("abc")) == {}
    index.drop(worker)
    index.cover(one, Coverage.COMPLETE)
    assert index.coverage(worker) is Coverage.NONE


def test_memory_is_what_the_books_say():
    index = make_index()
    blocks = 20_000
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(blocks // 100):
            tokens = pack_token_ids([number * 10_000 + position for position in range(100 * SIZE)])
            hashes = [(number * 100 + one) * 2**40 + 2**63 for one in range(100)]
            index.source(make_index_worker()).apply([Stored(hashes, None, tokens, SIZE)])
        del tokens, hashes
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert index.held == blocks
    assert 0.5 < used / (blocks * BLOCK_BYTES) < 1.1


WORKER = make_worker("one")


def make_index_worker():
    return WORKER
