"""Exact and approximate knowledge in one decision, and answers that put the former to the test."""

from __future__ import annotations

import pytest
from tests.support.kv_events import SIZE, prompt, removed, stored
from tests.support.pools import chain, make_worker, pool_of

from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.answers import learn
from warmroute.scheduling.exact_index import MISSES, Coverage, ExactIndex
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.policies.cache_aware import CacheAware
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import ROLES, Worker

LADDER = Ladder.fixed(4 * SIZE)
BLOCKS = "abcdefgh"
TOKENS = len(BLOCKS) * SIZE + 1


class House:
    """Two workers; what is asked about is always the same prompt of eight blocks."""

    def __init__(self) -> None:
        self.one, self.two = make_worker("one"), make_worker("two")
        self.exact = ExactIndex(1 << 30)
        self.index = PrefixIndex(LADDER, 1 << 30, 0)
        policies = dict.fromkeys(ROLES, CacheAware())
        self.scheduler = Scheduler(
            policies,
            self.index,
            Ledger(),
            rng=None,  # type: ignore[arg-type]
            clock=lambda: 1.0,
        )
        self.scheduler.exact = self.exact

    def publisher(self, worker: Worker, coverage: Coverage, blocks: str = "") -> None:
        source = self.exact.source(worker)
        if blocks:
            source.apply([stored(blocks)])
        self.exact.cover(source, coverage)

    def send(self, *workers: Worker, exact: bool = True, estimated: int = TOKENS) -> Lease:
        blocks = prompt(BLOCKS)
        blocks.estimated_tokens = estimated
        asked = Prompt(TOKENS if exact else estimated, chain(BLOCKS), blocks=blocks if exact else None)
        return self.scheduler.select(asked, pool_of(workers or (self.one, self.two)))

    def served(self, worker: Worker, **more: object) -> None:
        lease = self.send(worker, **more)  # type: ignore[arg-type]
        lease.release(Outcome.SERVED)


@pytest.fixture
def house() -> House:
    return House()


def test_events_decide_over_what_is_believed(house: House):
    """The engine has evicted what it was sent, and holds what somebody else has sent."""
    house.served(house.one)
    house.publisher(house.one, Coverage.COMPLETE, "ab")
    house.publisher(house.two, Coverage.COMPLETE, "abcde")
    lease = house.send()
    assert (lease.worker, lease.matched_tokens) == (house.two, 5 * SIZE)
    assert house.send(house.one).matched_tokens == 2 * SIZE


def test_where_events_are_silent_what_is_believed_counts(house: House):
    house.served(house.one)
    assert house.send(house.one).matched_tokens == 8 * SIZE
    house.publisher(house.one, Coverage.NONE)
    assert house.send(house.one).matched_tokens == 8 * SIZE
    house.publisher(house.two, Coverage.COMPLETE, "ab")
    assert house.send(house.two).matched_tokens == 2 * SIZE


def test_where_events_began_late_the_larger_figure_counts(house: House):
    house.publisher(house.one, Coverage.PARTIAL, "abc")
    assert house.send(house.one).matched_tokens == 3 * SIZE
    house.served(house.one)
    assert house.send(house.one).matched_tokens == 8 * SIZE


def test_a_burst_of_equal_prompts_sees_itself(house: House):
    """No event has come yet, but one of them is on its way; once it is answered, events alone count."""
    house.publisher(house.one, Coverage.COMPLETE)
    house.publisher(house.two, Coverage.COMPLETE)
    first = house.send(house.one)
    assert first.matched_tokens == 0
    second = house.send(house.one)
    assert second.matched_tokens == 8 * SIZE
    assert house.send(house.two).matched_tokens == 0
    first.first_token()
    second.release(Outcome.ABORTED)
    assert house.send(house.one).matched_tokens == 0


def test_estimates_become_the_engines_tokens(house: House):
    """Eight blocks of bytes were taken for twice as many tokens as they had."""
    house.served(house.one, estimated=2 * TOKENS)
    assert house.send(house.one, estimated=2 * TOKENS).matched_tokens == 8 * SIZE // 2


def test_a_prompt_without_tokens_is_matched_by_its_bytes(house: House):
    house.served(house.one)
    house.publisher(house.one, Coverage.COMPLETE, "ab")
    assert house.send(house.one, exact=False).matched_tokens == 8 * SIZE


def test_a_prompt_that_is_too_short_for_a_fingerprint_is_matched_all_the_same(house: House):
    house.publisher(house.one, Coverage.COMPLETE, "ab")
    lease = house.scheduler.select(Prompt(33, (), blocks=prompt("ab")), pool_of([house.one, house.two]))
    assert (lease.worker, lease.matched_tokens) == (house.one, 32)


def answers(house: House, *cached_blocks: int) -> list[Worker]:
    """Answers to requests of which 8 blocks were promised; who is distrusted for them."""
    distrusted: list[Worker] = []
    house.exact.on_distrust = distrusted.append
    for blocks in cached_blocks:
        lease = house.send(house.one)
        lease.release(Outcome.SERVED)
        assert learn(lease, TOKENS, blocks * SIZE, house.index, house.exact) == lease.matched_tokens
    return distrusted


def test_a_publisher_that_loses_removals_is_found_out(house: House):
    house.publisher(house.one, Coverage.COMPLETE, BLOCKS)
    assert answers(house, *[3] * (MISSES - 1)) == []
    assert answers(house, 3) == [house.one]
    assert answers(house, *[3] * (2 * MISSES)) == [house.one] * 2


def test_an_eviction_between_two_good_answers_is_none_of_its_faults(house: House):
    house.publisher(house.one, Coverage.COMPLETE, BLOCKS)
    assert answers(house, *([3] * (MISSES - 1) + [8]) * 3) == []


def test_an_eviction_that_the_events_have_told_is_none_of_its_faults(house: House):
    """In a full cache every prompt may lose some of its blocks while it waits, again and again."""
    house.publisher(house.one, Coverage.COMPLETE, BLOCKS)
    source = house.exact.source(house.one)
    distrusted: list[Worker] = []
    house.exact.on_distrust = distrusted.append
    for _ in range(2 * MISSES):
        lease = house.send(house.one)
        assert lease.matched_tokens == 8 * SIZE
        source.apply([removed(*(BLOCKS[: end + 1] for end in range(3, 8)))])
        source.apply([stored(BLOCKS, 3)])
        lease.release(Outcome.SERVED)
        learn(lease, TOKENS, 3 * SIZE, house.index, house.exact)
    assert distrusted == []
    # Fewer than what was taken back: that is something else.
    assert answers(house, *[1] * MISSES) == [house.one]


def test_more_than_was_promised_is_no_fault(house: House):
    house.publisher(house.one, Coverage.COMPLETE, "ab")
    assert answers(house, *[8] * 10) == []


def test_a_promise_that_stood_on_another_request_proves_nothing(house: House):
    house.publisher(house.one, Coverage.COMPLETE)
    distrusted: list[Worker] = []
    house.exact.on_distrust = distrusted.append
    waiting = [house.send(house.one) for _ in range(2 * MISSES)]
    for lease in waiting[1:]:
        assert lease.matched_tokens == 8 * SIZE
        learn(lease, TOKENS, 0, house.index, house.exact)
    assert distrusted == []
