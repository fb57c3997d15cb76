"""The exact index against a naive model: caches of real engines that tell what they do, and prompts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.kv_events import SIZE, name, prompt
from tests.support.pools import make_worker

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.kv_events import Cleared, KvEvent, Removed, Stored
from warmroute.scheduling.worker import Worker

PREFIXES = st.text("ab", min_size=1, max_size=5)
TIERS = st.sampled_from(["GPU", "CPU"])
NUMBERS = st.integers(0, 3)


def stored_span(blocks: str, start: int, tier: str, salt: str) -> Stored:
    tokens = [ord(letter) * 100 + position for letter in blocks[start:] for position in range(SIZE)]
    hashes = [name(blocks[: end + 1]) for end in range(start, len(blocks))]
    parent = name(blocks[:start]) if start else None
    return Stored(hashes, parent, pack_token_ids(tokens), SIZE, salt=salt, tier=tier)


class Machine(RuleBasedStateMachine):
    """Four publishers on three workers (one has two ranks). The model counts copies of prefixes by place."""

    stretch = 2

    def __init__(self) -> None:
        super().__init__()
        self.index = ExactIndex(1 << 30, self.stretch)
        a, b, c = (make_worker(worker) for worker in "abc")
        self.owners: list[tuple[Worker, int]] = [(a, 0), (b, 0), (c, 0), (c, 1)]
        self.salts = ["", "", "s", ""]
        self.copies: list[Counter[tuple[str, str]]] = [Counter() for _ in self.owners]

    def tell(self, number: int, event: KvEvent) -> None:
        self.index.source(*self.owners[number]).apply([event])

    @rule(number=NUMBERS, blocks=PREFIXES, tier=TIERS, data=st.data())
    def store(self, number: int, blocks: str, tier: str, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(blocks) - 1))
        copies = self.copies[number]
        known = start == 0 or any(copies[blocks[:start], other] for other in ("GPU", "CPU"))
        # Publishers with equal hashes know each other's parents, if they keep salts apart in the same way.
        known = known or any(
            self.salts[other] == self.salts[number] and self.copies[other][blocks[:start], place]
            for other in range(len(self.owners))
            for place in ("GPU", "CPU")
        )
        self.tell(number, stored_span(blocks, start, tier, self.salts[number]))
        if known:
            for end in range(start, len(blocks)):
                copies[blocks[: end + 1], tier] += 1

    @rule(number=NUMBERS, blocks=PREFIXES, tier=TIERS)
    def remove(self, number: int, blocks: str, tier: str) -> None:
        self.tell(number, Removed([name(blocks)], tier))
        if self.copies[number][blocks, tier]:
            self.copies[number][blocks, tier] -= 1

    @rule(number=NUMBERS)
    def clear(self, number: int) -> None:
        self.tell(number, Cleared())
        self.copies[number].clear()

    @rule(worker=st.integers(0, 2))
    def drop(self, worker: int) -> None:
        gone = self.owners[worker][0]
        self.index.drop(gone)
        for number, (owner, _) in enumerate(self.owners):
            if owner is gone:
                self.copies[number].clear()

    @rule(blocks=PREFIXES, salt=st.sampled_from([None, "s"]))
    def match(self, blocks: str, salt: str | None) -> None:
        self.check(blocks, salt)

    def check(self, blocks: str, salt: str | None) -> None:
        expected: dict[Worker, int] = {}
        known = {(source.worker, source.rank) for source, _ in self.index.sources()}
        ranks = Counter(owner[0] for owner in self.owners if owner in known)
        for number, (worker, _) in enumerate(self.owners):
            if self.salts[number] != (salt or ""):
                continue
            depth = 0
            while depth < len(blocks) and self.holds(number, blocks[: depth + 1]):
                depth += 1
            if depth:
                expected[worker] = expected.get(worker, 0) + depth * SIZE
        expected = {worker: tokens // ranks[worker] for worker, tokens in expected.items()}
        assert self.index.match(prompt(blocks, salt=salt)) == expected

    @rule(salt=st.sampled_from([None, "s"]))
    def match_prompts_that_begin_alike(self, salt: str | None) -> None:
        for letters in product("ab", repeat=4):
            self.check("".join(letters), salt)

    def holds(self, number: int, prefix: str) -> bool:
        return any(self.copies[number][prefix, tier] for tier in ("GPU", "CPU"))

    @invariant()
    def books_are_right(self) -> None:
        held = sum(len({prefix for (prefix, _), count in copies.items() if count}) for copies in self.copies)
        assert self.index.held == held


class LongStretches(Machine):
    """No prompt is as long as a stretch, or just one."""

    stretch = 4


@pytest.mark.parametrize("machine", [Machine, LongStretches])
def test_any_interleaving(machine: type[Machine]) -> None:
    case = machine.TestCase
    case.settings = settings(max_examples=70, stateful_step_count=30, deadline=None, database=None)
    case("runTest").runTest()
