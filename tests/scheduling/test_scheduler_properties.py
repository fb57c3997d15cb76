"""For any interleaving of select, first token, release, loss, removal and return the books are right."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.pools import SMALL_LADDER, chain, make_scheduler, make_worker, pool_of
from tests.support.prefix_model import check, holds_of

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.scheduler import NoWorker
from warmroute.scheduling.worker import Role, Worker

ROLES = st.sampled_from(["mixed", "prefill", "decode"])
PROMPTS = st.builds(
    lambda blocks, rest: Prompt(tokens=SMALL_LADDER.tokens_at(len(blocks)) + rest, fingerprint=chain(blocks)),
    st.lists(st.integers(0, 1), max_size=6),
    st.integers(0, 9),
)


class SchedulerMachine(RuleBasedStateMachine):
    """A small fleet whose members come and go while leases on them are open."""

    def __init__(self) -> None:
        super().__init__()
        rng = Random(3)
        policies = [create_policy(name, SchedulerConfig()) for name in policy_names()]
        self.scheduler = make_scheduler(
            # A policy of many: each decision is made by another one.
            lambda rows, prompt, _: rng.choice(policies)(rows, prompt, rng),
            ttl_seconds=5,
            clock=lambda: self.now,
            max_bytes=12_000,
        )
        self.now = 0.0
        self.present: list[Worker] = []
        self.absent: list[Worker] = []
        self.every: list[Worker] = []
        self.leases: list[Lease] = []
        self.lost = 0

    def pick_lease(self, number: int) -> Lease:
        return self.leases.pop(number % len(self.leases))

    @rule(role=ROLES, cache_tokens=st.integers(0, 60))
    def add_worker(self, role: Role, cache_tokens: int) -> None:
        worker = make_worker(f"w{len(self.every) % 3}", role=role, cache_tokens=cache_tokens)
        self.every.append(worker)
        self.present.append(worker)

    @precondition(lambda self: self.present)
    @rule(number=st.integers(0, 9))
    def remove_worker(self, number: int) -> None:
        worker = self.present.pop(number % len(self.present))
        worker.departed = True
        self.scheduler.forget(worker)
        self.absent.append(worker)

    @precondition(lambda self: self.absent)
    @rule(number=st.integers(0, 9))
    def return_worker(self, number: int) -> None:
        worker = self.absent.pop(number % len(self.absent))
        worker.departed = False
        self.present.append(worker)

    @precondition(lambda self: self.absent)
    @rule(number=st.integers(0, 9), prompt=PROMPTS)
    def select_from_an_old_pool(self, number: int, prompt: Prompt) -> None:
        worker = self.absent[number % len(self.absent)]
        self.leases.append(self.scheduler.select(prompt, pool_of([worker], worker.role)))

    @rule(role=ROLES, prompt=PROMPTS, excluded=st.sets(st.integers(0, 9), max_size=2))
    def select(self, role: Role, prompt: Prompt, excluded: set[int]) -> None:
        members = [worker for worker in self.present if worker.role == role]
        tried = {self.every[number] for number in excluded if number < len(self.every)}
        try:
            lease = self.scheduler.select(prompt, pool_of(members, role), excluding=tried)
        except NoWorker:
            assert set(members) <= tried
            return
        assert lease.worker in set(members) - tried
        assert lease.matched_tokens + lease.uncached_tokens == prompt.tokens
        self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99))
    def first_token(self, number: int) -> None:
        self.leases[number % len(self.leases)].first_token()

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99), outcome=st.sampled_from(Outcome))
    def release(self, number: int, outcome: Outcome) -> None:
        lease = self.pick_lease(number)
        lease.release(outcome)
        lease.first_token()
        lease.release(outcome)

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 99))
    def lose(self, number: int) -> None:
        lease = self.pick_lease(number)
        del lease
        self.lost += 1

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.scheduler.index.sweep(self.now)

    @invariant()
    def books_agree(self) -> None:
        ledger = self.scheduler.ledger
        assert ledger.audit().problems == ()
        assert ledger.open_leases == len(self.leases)
        assert ledger.lost_leases == self.lost
        holding = {lease.worker for lease in self.leases}
        assert holding <= set(ledger.workers()) <= holding | set(self.present)
        assert all(worker.candidate.matched_tokens == 0 for worker in self.every)
        check(self.scheduler.index, SMALL_LADDER)

    def teardown(self) -> None:
        for lease in self.leases:
            lease.release(Outcome.ABORTED)
        self.scheduler.index.sweep(self.now)
        for worker in self.every:
            load = worker.load
            assert (load.running_requests, load.pending_prefill_tokens, load.active_tokens) == (0, 0, 0)
        assert self.scheduler.ledger.open_leases == 0
        trie = self.scheduler.index._trie
        shelves = trie.shelves
        assert not trie.pending
        assert all(trie.is_confirmed(hold) for shelf in shelves.values() for hold in holds_of(shelf))
        assert not shelves.keys() & set(self.absent)


def test_any_interleaving() -> None:
    case = SchedulerMachine.TestCase
    case.settings = settings(max_examples=50, stateful_step_count=30, deadline=None, database=None)
    case("runTest").runTest()
