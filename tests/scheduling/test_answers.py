"""What answers teach the approximate index: evicted entries go, and nothing else does."""

from __future__ import annotations

import pytest
from tests.support.pools import chain, make_worker, pool_of

from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.answers import learn
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.policies.request_num import request_num
from warmroute.scheduling.prefix_index import LONGEST_ANSWER_SECONDS, PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import ROLES, Worker

BLOCK_TOKENS = 1000
LADDER = Ladder.fixed(4 * BLOCK_TOKENS)
A, B, C, D = (chain(prefix + "xyz") for prefix in "abcd")
TOKENS = 4 * BLOCK_TOKENS


class House:
    """A scheduler with a clock in hand and one worker."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.index = PrefixIndex(LADDER, 1 << 30, 0)
        self.worker: Worker = make_worker()
        policies = dict.fromkeys(ROLES, request_num)
        self.scheduler = Scheduler(policies, self.index, Ledger(), rng=None, clock=lambda: self.now)  # type: ignore[arg-type]

    def send(self, fingerprint: list[int], tokens: int = TOKENS) -> Lease:
        return self.scheduler.select(Prompt(tokens=tokens, fingerprint=fingerprint), pool_of([self.worker]))

    def serve(self, fingerprint: list[int], cached: int | None = None, engine_tokens: int = TOKENS) -> int:
        """One request from start to end; what was believed of it if its answer tells what was cached."""
        lease = self.send(fingerprint)
        lease.first_token()
        lease.release(Outcome.SERVED)
        return 0 if cached is None else learn(lease, engine_tokens, cached, self.index)

    def known(self, fingerprint: list[int]) -> bool:
        return bool(self.index.match(fingerprint))


@pytest.fixture
def house() -> House:
    return House()


def test_what_is_older_than_what_the_engine_evicted_is_forgotten(house: House):
    house.serve(A)
    house.serve(B)
    house.now += LONGEST_ANSWER_SECONDS + 1
    house.serve(C)
    house.now += 10
    house.serve(D)
    house.now += 10
    assert house.serve(D, cached=0) == TOKENS
    assert house.known(A), "one answer may be due to the request"
    house.serve(C, cached=0)
    assert not house.known(A)
    assert not house.known(B)
    assert house.known(C), "the engine has it again"
    assert house.known(D), "it was used after what has been evicted"
    assert house.index.disproved == 8


def test_what_may_have_been_in_use_until_later_is_kept(house: House):
    """An engine counts a prompt as used until the end of its answer."""
    house.serve(A)
    house.now += LONGEST_ANSWER_SECONDS - 1
    for fingerprint in (B, C, D):
        house.serve(fingerprint)
    house.now += 500
    for fingerprint in (B, C, D):
        house.serve(fingerprint, cached=0)
    assert house.known(A)


def test_a_good_answer_between_two_bad_ones_clears_the_engine(house: House):
    house.serve(A)
    house.now += 1000
    for fingerprint in (B, C):
        house.serve(fingerprint)
    house.now += 10
    for _ in range(3):
        house.serve(B, cached=0)
        house.serve(C, cached=TOKENS)
    assert house.known(A)


def test_a_match_with_a_prompt_on_its_way_proves_nothing(house: House):
    """In a burst of equal prompts the first one fills the cache while the others are waiting."""
    house.serve(A)
    house.now += 1000
    _first, *others = [house.send(B) for _ in range(4)]
    for lease in others:
        assert lease.matched_tokens == TOKENS
        learn(lease, TOKENS, 0, house.index)
    assert house.known(A)


def test_a_prompt_that_matched_nothing_proves_nothing(house: House):
    house.serve(A)
    house.now += 1000
    assert [house.serve(chain(name * 3), cached=0) for name in "pqrs"] == [0, 0, 0, 0]
    assert house.known(A)


def test_a_small_difference_is_none(house: House):
    """Tokens are estimated, and engines cache whole blocks."""
    house.serve(A)
    house.now += 1000
    house.serve(B)
    house.now += 10
    for _ in range(3):
        house.serve(B, cached=TOKENS * 3 // 4)
    assert house.known(A)


def test_the_engines_tokens_are_the_unit(house: House):
    """A text of 4,000 estimated tokens had 3,000: then 3,000 is all."""
    house.serve(A)
    house.now += 1000
    house.serve(B)
    house.now += 10
    assert [house.serve(B, cached=3000, engine_tokens=3000) for _ in range(3)] == [3000] * 3
    assert house.known(A)


def test_a_worker_that_was_forgotten_meanwhile_is_no_error(house: House):
    house.serve(A)
    house.now += 10
    lease = house.send(A)
    house.scheduler.forget(house.worker)
    lease.release(Outcome.SERVED)
    for _ in range(3):
        learn(lease, TOKENS, 0, house.index)
        learn(lease, TOKENS, TOKENS, house.index)
    assert not house.known(A)
