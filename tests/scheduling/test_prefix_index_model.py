"""The prefix index against a naive model, for any interleaving of its operations."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.support.pools import SMALL_LADDER, chain
from tests.support.prefix_model import NaivePrefixIndex, check, check_books, contents, naive_contents

from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Worker

TTL = 10.0
# Two symbols and up to seven blocks: prompts part and meet at every depth.
PROMPTS = st.lists(st.integers(0, 1), max_size=7).map(chain)
WORKERS = st.integers(0, 2)
Claim = tuple[Worker, list[int], int]


class IndexMachine(RuleBasedStateMachine):
    """Drives the index with few prompts, workers and tokens, so that operations meet often."""

    claims = Bundle("claims")
    looked_up = Bundle("looked_up")
    max_bytes = 1 << 30

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.claimants = 0
        self.index = PrefixIndex(SMALL_LADDER, self.max_bytes, TTL)
        self.model = NaivePrefixIndex(SMALL_LADDER, TTL)

    @initialize(caps=st.tuples(*[st.integers(0, 60)] * 3))
    def make_workers(self, caps: tuple[int, int, int]) -> None:
        self.workers = [Worker(f"w{n}", "", cache_tokens=cap) for n, cap in enumerate(caps)]

    @rule(target=claims, number=WORKERS, fingerprint=PROMPTS)
    def claim(self, number: int, fingerprint: list[int]) -> Claim:
        self.claimants += 1
        claim = (self.workers[number], fingerprint, self.claimants)
        self.index.claim(claim[0], fingerprint, self.now, self.claimants)
        self.model.claim(claim[0], fingerprint, self.now, self.claimants)
        return claim

    @rule(target=looked_up, fingerprint=PROMPTS)
    def look_up(self, fingerprint: list[int]) -> list[int]:
        """The index remembers how far it came, for the claim that mostly follows at once."""
        self.match(fingerprint)
        return fingerprint

    @rule(target=claims, number=WORKERS, fingerprint=looked_up, again=st.booleans())
    def claim_what_was_looked_up(self, number: int, fingerprint: list[int], again: bool) -> Claim:
        if again:
            self.match(fingerprint)
        return self.claim(number, fingerprint)

    @rule(claim=claims)
    def confirm(self, claim: Claim) -> None:
        self.index.confirm(claim[2])
        self.model.confirm(*claim)

    @rule(claim=consumes(claims))
    def retract(self, claim: Claim) -> None:
        self.index.retract(*claim)
        self.model.retract(*claim)

    @rule(claim=consumes(claims))
    def abandon(self, claim: Claim) -> None:
        """Nothing changes at once, and it is gone with the next change."""
        before = contents(self.index)
        self.index.abandon(*claim)
        assert contents(self.index) == before
        self.index.sweep(self.now)
        self.model.retract(*claim)
        self.model.sweep(self.now)

    @rule(number=WORKERS)
    def purge(self, number: int) -> None:
        self.index.purge(self.workers[number])
        self.model.purge(self.workers[number])
        assert self.index.tokens(self.workers[number]) == 0

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def sweep(self) -> None:
        self.index.sweep(self.now)
        self.model.sweep(self.now)

    @rule(fingerprint=PROMPTS)
    def match(self, fingerprint: list[int]) -> None:
        assert self.index.match(fingerprint) == self.model.match(fingerprint)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        check(self.index, SMALL_LADDER)
        assert contents(self.index) == naive_contents(self.model)


class ByteBoundMachine(IndexMachine):
    """With a bound on bytes contents depend on how nodes were cut; the rules must hold all the same."""

    max_bytes = 6_000

    @rule(fingerprint=PROMPTS)
    def match(self, fingerprint: list[int]) -> None:
        held = contents(self.index)
        for worker, tokens in self.index.match(fingerprint).items():
            depth = next(d for d in range(1, len(fingerprint) + 1) if SMALL_LADDER.tokens_at(d) == tokens)
            assert tuple(fingerprint[:depth]) in {prefix for prefix, _, _ in held[worker]}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        check(self.index, SMALL_LADDER)


class CollisionMachine(IndexMachine):
    """Hashes that are not chained at all, as if every one collided: no error, and the books stay right."""

    @rule(target=IndexMachine.claims, number=WORKERS, fingerprint=st.lists(st.integers(0, 3), max_size=7))
    def claim(self, number: int, fingerprint: list[int]) -> Claim:
        self.claimants += 1
        self.index.claim(self.workers[number], fingerprint, self.now, self.claimants)
        return self.workers[number], fingerprint, self.claimants

    @rule(claim=consumes(IndexMachine.claims))
    def abandon(self, claim: Claim) -> None:
        self.index.abandon(*claim)

    @rule(fingerprint=st.lists(st.integers(0, 3), max_size=7))
    def match(self, fingerprint: list[int]) -> None:
        assert set(self.index.match(fingerprint)) <= set(self.workers)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        check_books(self.index, SMALL_LADDER)

    def teardown(self) -> None:
        for worker in self.workers:
            self.index.purge(worker)
        assert self.index.size_bytes == 0


@pytest.mark.parametrize("machine", [IndexMachine, ByteBoundMachine, CollisionMachine])
def test_any_interleaving(machine: type[IndexMachine]) -> None:
    case = machine.TestCase
    case.settings = settings(max_examples=50, stateful_step_count=30, deadline=None, database=None)
    case("runTest").runTest()
