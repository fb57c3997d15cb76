"""The scheduler: one step from prompt to lease."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from tests.support.pools import SMALL_LADDER, chain, make_scheduler, make_worker, pool_of

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.scheduler import NoWorker, PolicyError
from warmroute.scheduling.worker import Candidate, Pool, Worker

WARM = Prompt(tokens=40, fingerprint=chain("abcd"))


class Spy:
    """Writes down what a policy is shown, and picks the worker of a name (or the first)."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[dict[str, int]] = []

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        self.seen.append({row.worker.id: row.matched_tokens for row in candidates})
        return next((row for row in candidates if row.worker.id == self.name), candidates[0])


def test_the_policy_sees_each_workers_own_match():
    spy = Spy("a")
    scheduler = make_scheduler(spy)
    a, b, c = workers = [make_worker(name) for name in "abc"]
    for worker, prompt in ((a, "abcd"), (b, "abxy")):
        scheduler.index.claim(worker, chain(prompt), 0.0, -1)
    lease = scheduler.select(WARM, pool_of(workers))
    assert spy.seen == [{"a": SMALL_LADDER.tokens_at(4), "b": SMALL_LADDER.tokens_at(2), "c": 0}]
    assert (lease.worker, lease.matched_tokens, lease.uncached_tokens) == (a, 8, 32)
    assert [worker.candidate.matched_tokens for worker in workers] == [0, 0, 0]
    lease.release(Outcome.SERVED)
    assert c.load.running_requests == 0


def test_a_match_is_never_longer_than_the_prompt():
    """Tokens are an estimate, blocks count in bytes: the two may differ by a rounding."""
    scheduler, worker = make_scheduler(), make_worker()
    scheduler.index.claim(worker, WARM.fingerprint, 0.0, -1)
    lease = scheduler.select(Prompt(tokens=5, fingerprint=WARM.fingerprint), pool_of([worker]))
    assert (lease.matched_tokens, lease.uncached_tokens) == (5, 0)
    lease.release(Outcome.SERVED)


def test_a_single_candidate_is_matched_and_learned_and_put_to_the_policy():
    """Round robin counts a turn that a retry had no choice about."""
    spy = Spy()
    scheduler, worker = make_scheduler(spy), make_worker("w")
    for expected in (0, 8):
        lease = scheduler.select(WARM, pool_of([worker]))
        assert lease.matched_tokens == expected
        lease.release(Outcome.SERVED)
    assert spy.seen == [{"w": 0}, {"w": 8}]


@pytest.mark.parametrize("name", policy_names())
def test_every_policys_placements_are_learned(name: str):
    scheduler = make_scheduler(create_policy(name, SchedulerConfig(balance_abs_threshold=0)))
    workers = [make_worker(f"w{n}") for n in range(3)]
    lease = scheduler.select(WARM, pool_of(workers))
    assert scheduler.index.match(WARM.fingerprint) == {lease.worker: 8}
    assert lease.policy == name
    lease.release(Outcome.SERVED)


def test_a_burst_of_equal_prompts_stays_together():
    """Before any of them is answered: the claim of the first makes its worker warm for the second."""
    scheduler = make_scheduler(create_policy("cache_aware", SchedulerConfig(load_balance_weight=0)))
    pool = pool_of([make_worker(f"w{n}") for n in range(4)])
    leases = [scheduler.select(WARM, pool) for _ in range(5)]
    assert len({lease.worker for lease in leases}) == 1
    for lease in leases:
        lease.release(Outcome.SERVED)


def test_excluded_workers_are_not_candidates():
    spy = Spy()
    scheduler, a, b = make_scheduler(spy), make_worker("a"), make_worker("b")
    c = make_worker("c")
    lease = scheduler.select(Prompt(tokens=1), pool_of([a, b, c]), excluding={a})
    assert spy.seen == [{"b": 0, "c": 0}]
    lease.release(Outcome.SERVED)
    assert scheduler.select(Prompt(tokens=1), pool_of([a, b, c]), excluding=[a, b]).worker is c


@pytest.mark.parametrize("excluded", [False, True])
def test_no_worker_is_left(excluded: bool):
    scheduler, worker = make_scheduler(), make_worker(role="prefill")
    pool = pool_of([worker] if excluded else [], "prefill")
    with pytest.raises(NoWorker, match="no prefill worker available for model 'm'") as caught:
        scheduler.select(Prompt(tokens=1, model="m"), pool, excluding=[worker])
    assert (caught.value.role, caught.value.model) == ("prefill", "m")
    assert scheduler.ledger.open_leases == 0


def raises(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    raise ZeroDivisionError("oops")


STRANGER = make_worker("stranger").candidate


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (raises, "policy 'raises' failed: ZeroDivisionError: oops"),
        (lambda candidates, prompt, rng: None, "policy '<lambda>' returned None, which is not one of its candidates"),
        (lambda candidates, prompt, rng: candidates[0].worker, "returned Worker"),
        (lambda candidates, prompt, rng: STRANGER, "not one of its candidates"),
        (lambda candidates, prompt, rng: [], "returned \\[\\]"),
    ],
)
def test_a_policy_that_fails_is_named_and_nothing_is_counted(policy: Spy, reason: str):
    scheduler, workers = make_scheduler(policy), [make_worker("a"), make_worker("b")]
    scheduler.index.claim(workers[0], WARM.fingerprint, 0.0, -1)
    with pytest.raises(PolicyError, match=reason):
        scheduler.select(WARM, pool_of(workers))
    assert scheduler.ledger.open_leases == 0
    assert [worker.load.running_requests for worker in workers] == [0, 0]
    assert [worker.candidate.matched_tokens for worker in workers] == [0, 0]
    assert scheduler.index.match(WARM.fingerprint) == {workers[0]: 8}


def test_a_policy_must_not_pick_an_excluded_worker():
    a, b, c = (make_worker(name) for name in "abc")
    scheduler = make_scheduler(lambda candidates, prompt, rng: a.candidate)
    with pytest.raises(PolicyError, match="not one of its candidates"):
        scheduler.select(Prompt(tokens=1), pool_of([a, b, c]), excluding=[a])


def test_forgetting_a_worker_purges_its_prefixes_and_keeps_its_load():
    scheduler, worker = make_scheduler(), make_worker()
    lease = scheduler.select(WARM, pool_of([worker]))
    scheduler.forget(worker)
    assert scheduler.index.match(WARM.fingerprint) == {}
    assert worker.load.running_requests == 1
    lease.first_token()
    lease.release(Outcome.SERVED)
    assert scheduler.index.match(WARM.fingerprint) == {}
    assert worker.load.running_requests == 0
    assert scheduler.ledger.audit().consistent


def test_a_late_lease_on_a_departed_worker_leaves_nothing_behind():
    """A decision that was made on a pool from before the removal: counted, but neither listed nor learned for ever."""
    scheduler, worker = make_scheduler(), make_worker()
    scheduler.select(WARM, pool_of([worker])).release(Outcome.SERVED)
    worker.departed = True
    scheduler.forget(worker)
    lease = scheduler.select(WARM, pool_of([worker]))
    assert (list(scheduler.ledger.workers()), worker.load.running_requests) == ([worker], 1)
    assert scheduler.index.tokens(worker) == 0
    lease.release(Outcome.SERVED)
    assert list(scheduler.ledger.workers()) == []
    assert (scheduler.index.tokens(worker), scheduler.index.size_bytes) == (0, 0)
    assert worker.load.running_requests == 0


def test_a_worker_that_has_restarted_is_learned_anew():
    scheduler, worker = make_scheduler(), make_worker()
    scheduler.select(WARM, pool_of([worker])).release(Outcome.SERVED)
    scheduler.forget(worker)
    scheduler.select(WARM, pool_of([worker])).release(Outcome.SERVED)
    assert scheduler.index.match(WARM.fingerprint) == {worker: 8}
    assert list(scheduler.ledger.workers()) == [worker]


def test_each_role_has_its_own_policy():
    policies = {"mixed": Spy("m"), "prefill": Spy("p"), "decode": create_policy("request_num", SchedulerConfig())}
    scheduler = make_scheduler()
    scheduler = type(scheduler)(policies, scheduler.index, scheduler.ledger, rng=Random(1), clock=lambda: 0.0)
    assert [scheduler.policy_name(role) for role in ("mixed", "prefill", "decode")] == ["m", "p", "request_num"]
    workers: list[Worker] = [make_worker("x", role="prefill"), make_worker("p", role="prefill")]
    lease = scheduler.select(Prompt(tokens=1), Pool("prefill", tuple(w.candidate for w in workers)))
    assert (lease.worker.id, lease.policy) == ("p", "p")
    lease.release(Outcome.SERVED)


def test_the_clock_that_was_handed_in_dates_what_is_learned():
    now = [0.0]
    scheduler, worker = make_scheduler(ttl_seconds=60, clock=lambda: now[0]), make_worker()
    scheduler.select(WARM, pool_of([worker])).release(Outcome.SERVED)
    now[0] = 50.0
    scheduler.select(WARM, pool_of([worker])).release(Outcome.SERVED)
    scheduler.index.sweep(100.0)
    assert scheduler.index.tokens(worker) == 8
    scheduler.index.sweep(111.0)
    assert scheduler.index.tokens(worker) == 0
