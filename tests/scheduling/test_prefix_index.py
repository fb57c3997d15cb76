"""The prefix index in plain examples; `test_prefix_index_model` covers the interleavings."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import pytest
from tests.support.pools import SMALL_LADDER, chain, make_worker
from tests.support.prefix_model import check, contents

from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Worker


def make_index(max_bytes: int = 1 << 30, ttl_seconds: float = 0) -> PrefixIndex:
    return PrefixIndex(SMALL_LADDER, max_bytes, ttl_seconds)


def learn(index: PrefixIndex, worker: Worker, fingerprint: list[int], now: float = 0.0) -> None:
    index.claim(worker, fingerprint, now, 1)
    index.confirm(1)


def test_every_worker_gets_its_own_longest_match():
    """Not only the best one: a peer hides the worker that holds 90 % behind the one that holds all."""
    index = make_index()
    a, b, c, d = (make_worker(name) for name in "abcd")
    learn(index, a, chain("abcdef"))
    learn(index, b, chain("abcdx"))
    learn(index, c, chain("ab"))
    learn(index, d, chain("xyz"))
    tokens = SMALL_LADDER.tokens_at
    assert index.match(chain("abcdef")) == {a: tokens(6), b: tokens(4), c: tokens(2)}
    assert index.match(chain("abcdef")[:3]) == {a: tokens(3), b: tokens(3), c: tokens(2)}
    assert index.match(chain("q")) == index.match([]) == {}


def test_a_claim_is_seen_at_once():
    """Equal prompts of one burst go to one worker before the first of them is answered."""
    index, worker = make_index(), make_worker()
    index.claim(worker, chain("abc"), 0.0, 1)
    assert index.match(chain("abc")) == {worker: SMALL_LADDER.tokens_at(3)}


def test_a_failed_request_takes_back_only_what_it_added():
    index, worker = make_index(), make_worker()
    learn(index, worker, chain("ab"))
    index.claim(worker, chain("abcd"), 0.0, 2)
    index.retract(worker, chain("abcd"), 2)
    assert index.match(chain("abcd")) == {worker: SMALL_LADDER.tokens_at(2)}


def test_a_failed_request_leaves_what_others_claim_too():
    index, worker = make_index(), make_worker()
    index.claim(worker, chain("abcd"), 0.0, 1)
    index.claim(worker, chain("abx"), 0.0, 2)
    index.retract(worker, chain("abcd"), 1)
    assert index.match(chain("abcd")) == {worker: SMALL_LADDER.tokens_at(2)}
    index.retract(worker, chain("abx"), 2)
    assert index.match(chain("abcd")) == {}
    assert index.size_bytes == 0


def test_what_one_request_confirmed_stays_when_another_fails():
    index, worker = make_index(), make_worker()
    for claimant in (1, 2):
        index.claim(worker, chain("abc"), 0.0, claimant)
    index.confirm(1)
    index.retract(worker, chain("abc"), 2)
    assert index.tokens(worker) == SMALL_LADDER.tokens_at(3)


@pytest.mark.parametrize("settle", ["confirm", "retract"])
def test_a_late_answer_of_a_purged_worker_brings_nothing_back(settle: str):
    index, worker = make_index(), make_worker()
    index.claim(worker, chain("abc"), 0.0, 1)
    index.purge(worker)
    if settle == "confirm":
        index.confirm(1)
    else:
        index.retract(worker, chain("abc"), 1)
    assert index.match(chain("abc")) == {}
    # Nor does it touch what the restarted worker has been sent since.
    index.claim(worker, chain("abc"), 0.0, 2)
    if settle == "confirm":
        index.confirm(1)
    else:
        index.retract(worker, chain("abc"), 1)
    index.retract(worker, chain("abc"), 2)
    assert index.match(chain("abc")) == {}


def test_an_abandoned_claim_is_gone_with_the_next_claim():
    index, worker = make_index(), make_worker()
    index.claim(worker, chain("abc"), 0.0, 1)
    index.abandon(worker, chain("abc"), 1)
    index.claim(worker, chain("x"), 0.0, 2)
    assert index.match(chain("abc")) == {}


def test_the_least_recently_used_tail_goes_first_and_no_more_than_needed():
    """22 tokens fit: six blocks. The older prompt loses two blocks of 8 for the newer one's 8."""
    index, worker = make_index(), make_worker(cache_tokens=24)
    learn(index, worker, chain("abcdef"))
    assert index.tokens(worker) == 24
    learn(index, worker, chain("wxyz"))
    assert index.match(chain("abcdef")) == {worker: SMALL_LADDER.tokens_at(5)}
    assert index.match(chain("wxyz")) == {worker: SMALL_LADDER.tokens_at(4)}
    assert (index.tokens(worker), index.evictions) == (24, 1)


def test_a_tail_that_others_hold_too_goes_for_one_worker_only():
    index = make_index()
    small, large = make_worker("small", cache_tokens=24), make_worker("large")
    for worker in (small, large):
        learn(index, worker, chain("abcdef"))
    learn(index, small, chain("wxyz"))
    assert index.match(chain("abcdef")) == {small: SMALL_LADDER.tokens_at(5), large: SMALL_LADDER.tokens_at(6)}


def test_of_a_prompt_larger_than_the_cache_the_head_is_kept():
    index, worker = make_index(), make_worker(cache_tokens=17)
    learn(index, worker, chain("abcdefgh"))
    assert index.match(chain("abcdefgh")) == {worker: 16}


def test_a_cache_that_turns_out_smaller_is_cut_back_with_the_next_claim():
    """An engine tells its cache size only when it is polled."""
    index, worker = make_index(), make_worker()
    learn(index, worker, chain("abcdefgh"))
    worker.cache_tokens = 10
    learn(index, worker, chain("xy"))
    assert index.tokens(worker) <= 10
    assert index.match(chain("xy")) == {worker: 2}


@pytest.mark.parametrize(("cache_tokens", "max_bytes"), [(0, 1 << 30), (500_000, 0)])
def test_zero_room_means_that_nothing_is_remembered(cache_tokens: int, max_bytes: int):
    index, worker = make_index(max_bytes), make_worker(cache_tokens=cache_tokens)
    learn(index, worker, chain("abc"))
    assert (index.match(chain("abc")), index.size_bytes) == ({}, 0)


def test_an_unused_prefix_is_forgotten_after_its_time_per_worker():
    index = make_index(ttl_seconds=60)
    a, b = make_worker("a"), make_worker("b")
    learn(index, a, chain("abc"), now=0)
    learn(index, b, chain("abc"), now=30)
    index.sweep(60)
    assert set(index.match(chain("abc"))) == {a, b}
    index.sweep(61)
    assert set(index.match(chain("abc"))) == {b}
    # The worker's next claim forgets too, without a sweep.
    learn(index, b, chain("x"), now=91)
    assert index.match(chain("abc")) == {}


def test_use_renews_a_prefix_and_zero_never_forgets():
    index, forever, worker = make_index(ttl_seconds=60), make_index(ttl_seconds=0), make_worker()
    for now in (0, 50, 100):
        learn(index, worker, chain("abc"), now)
    learn(forever, worker, chain("abc"), 0)
    index.sweep(150)
    forever.sweep(1e9)
    assert index.match(chain("abc")) == forever.match(chain("abc")) == {worker: SMALL_LADDER.tokens_at(3)}


def test_the_byte_bound_takes_from_the_worker_that_grows():
    index = make_index(max_bytes=20_000)
    quiet, busy = make_worker("quiet"), make_worker("busy")
    learn(index, quiet, chain("quiet"))
    for number in range(100):
        learn(index, busy, chain([number, 1, 2]))
        check(index, SMALL_LADDER)
    assert index.match(chain("quiet")) == {quiet: SMALL_LADDER.tokens_at(5)}
    assert index.match(chain([99, 1, 2])) == {busy: SMALL_LADDER.tokens_at(3)}
    assert index.match(chain([0, 1, 2])) == {}
    assert index.evictions > 0


def test_the_byte_bound_takes_from_the_fullest_worker_when_the_growing_one_has_nothing_older():
    index = make_index(max_bytes=20_000)
    full = make_worker("full")
    for number in range(100):
        learn(index, full, chain([number, 1, 2]))
    newcomer = make_worker("newcomer")
    learn(index, newcomer, chain("new"))
    assert index.match(chain("new")) == {newcomer: SMALL_LADDER.tokens_at(3)}
    check(index, SMALL_LADDER)


def traced(index: PrefixIndex, workers: list[Worker], fingerprints: list[list[int]], confirm: bool) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        for number, fingerprint in enumerate(fingerprints):
            worker = workers[number % len(workers)]
            index.claim(worker, fingerprint, float(number), number)
            if confirm:
                index.confirm(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("confirm", [True, False])
@pytest.mark.parametrize(("shared", "workers"), [(0, 4), (20, 4), (20, 64)])
def test_the_counted_bytes_are_those_of_the_allocator(shared: int, workers: int, confirm: bool):
    rng = Random(1)
    stem = [rng.getrandbits(64) for _ in range(shared)]
    fingerprints = [stem + [rng.getrandbits(64) for _ in range(44 - shared)] for _ in range(1000)]
    index = PrefixIndex(Ladder.default(), 1 << 30, 1800)
    fleet = [make_worker(f"w{n}", cache_tokens=1 << 40) for n in range(workers)]
    # The hashes themselves belong to the prompts; the index shares those that it uses as keys, and counts them.
    used = traced(index, fleet, fingerprints, confirm)
    assert 0.75 < used / index.size_bytes < 1.1


def test_2000_unique_prompts_of_32_kb_take_less_than_3_mb():
    rng = Random(1)
    fingerprints = [[rng.getrandbits(64) for _ in range(44)] for _ in range(2000)]
    fleet = [make_worker(f"w{n}", cache_tokens=1 << 40) for n in range(4)]
    assert traced(PrefixIndex(Ladder.default(), 1 << 30, 1800), fleet, fingerprints, True) < 3_000_000


def test_a_claim_after_a_look_keeps_to_the_cache_of_its_worker():
    """What was found at another worker may be longer than this one can hold."""
    index = make_index()
    large, small = make_worker("large"), make_worker("small", cache_tokens=SMALL_LADDER.tokens_at(2))
    index.claim(large, chain("abcd"), 0.0, 1)
    prompt = chain("abcde")
    assert index.match(prompt) == {large: SMALL_LADDER.tokens_at(4)}
    index.claim(small, prompt, 0.0, 2)
    assert index.tokens(small) == SMALL_LADDER.tokens_at(2)
    assert index.evictions == 0


@pytest.mark.parametrize("meanwhile", ["purged", "cut", "shortened", "grown"])
def test_a_claim_after_a_look_sees_what_has_changed_between(meanwhile: str):
    index, fresh = make_index(), make_index()
    holder, other = make_worker("holder", cache_tokens=10), make_worker("other")
    left = {"purged": 0, "cut": 4, "shortened": 3, "grown": 4}[meanwhile]
    prompt = chain("abcdef")
    for one, looks in ((index, True), (fresh, False)):
        one.claim(holder, chain("abcd"), 0.0, 1)
        if looks:
            assert one.match(prompt) == {holder: SMALL_LADDER.tokens_at(4)}
        if meanwhile == "purged":
            one.purge(holder)
        elif meanwhile == "cut":
            one.claim(other, chain("abx"), 1.0, 2)
        elif meanwhile == "shortened":
            one.claim(holder, chain("vwx"), 1.0, 2)
        else:
            one.claim(other, chain("abcdex"), 1.0, 2)
        one.claim(other, prompt, 2.0, 3)
        check(one, SMALL_LADDER)
        assert one.match(prompt).get(holder, 0) == SMALL_LADDER.tokens_at(left)
    assert contents(index) == contents(fresh)
