"""Pairs: both leases or none, only pairs that can work, near ones among equals."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.pools import chain, make_scheduler, make_worker, pool_of

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pace import effective_tokens
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.scheduler import NoPair, PolicyError, Scheduler
from warmroute.scheduling.worker import Worker

PROMPT = Prompt(tokens=40, fingerprint=chain("abcd"))
Edges = dict[Worker, list[Worker]]


def pairs_of(edges: Edges, near: set[tuple[Worker, Worker]] = frozenset(), why: str = "") -> PairPool:
    """The pairs of these prefill workers with their decode workers."""
    decode = dict.fromkeys(worker for partners in edges.values() for worker in partners)
    return PairPool(
        pool_of([worker for worker, partners in edges.items() if partners], "prefill"),
        pool_of(decode, "decode"),
        {worker: pool_of(partners, "decode") for worker, partners in edges.items()},
        lambda prefill: frozenset(decode for decode in edges[prefill] if (prefill, decode) in near),
        why,
    )


def fleet(prefill: int = 2, decode: int = 2) -> tuple[list[Worker], list[Worker]]:
    return (
        [make_worker(f"p{n}", role="prefill") for n in range(prefill)],
        [make_worker(f"d{n}", role="decode") for n in range(decode)],
    )


def test_both_sides_are_counted_and_given_back_each_in_its_time():
    scheduler, ((p,), (d,)) = make_scheduler(learns_decode=True), fleet(1, 1)
    pair = scheduler.select_pair(PROMPT, pairs_of({p: [d]}))
    assert (p.load.pending_prefill_tokens, d.load.pending_prefill_tokens) == (40, 0)
    assert (p.load.running_requests, d.load.running_requests, d.load.active_tokens) == (1, 1, 40)
    pair.prefill.first_token()
    assert p.load.pending_prefill_tokens == 0
    pair.prefill.release(Outcome.SERVED)
    assert (p.load.running_requests, d.load.running_requests, pair.is_open) == (0, 1, True)
    pair.release(Outcome.SERVED)
    pair.release(Outcome.FAILED)
    assert (d.load.running_requests, pair.is_open, scheduler.ledger.audit().problems) == (0, False, ())
    assert dict(scheduler.index.match(PROMPT.fingerprint)) == {p: 8, d: 8}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tells_first", [False, True], ids=["in one piece", "in pieces"])
def test_the_pace_of_a_prefill_worker_is_learned_from_its_answer(stream, tells_first):
    """It has one token, so its first byte is the end of prefill, whether the client streams, and if it is the last."""
    now = [100.0]
    policy = create_policy("least_delay", SchedulerConfig())
    scheduler, ((p,), (d,)) = make_scheduler(policy, clock=lambda: now[0]), fleet(1, 1)
    pair = scheduler.select_pair(Prompt(tokens=4000, stream=stream), pairs_of({p: [d]}))
    now[0] += 0.5
    if tells_first:
        pair.prefill.first_token()
    pair.prefill.release(Outcome.SERVED)
    pace = p.candidate.pace
    assert (pace.known, pace.open, pace.waiting) == (True, 0, 0)
    assert pace.observed == pytest.approx(0.5 / effective_tokens(4000, 0))
    pair.release(Outcome.SERVED)
    assert not d.candidate.pace.known


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_learned_from_an_answer_that_waits_for_the_decode_worker(stream):
    policy = create_policy("least_delay", SchedulerConfig())
    scheduler, ((p,), (d,)) = make_scheduler(policy), fleet(1, 1)
    p.tells_prefill = False
    pair = scheduler.select_pair(Prompt(tokens=4000, stream=stream), pairs_of({p: [d]}))
    assert p.candidate.pace.wait(0.0) > 0.0
    pair.first_token()
    assert (p.candidate.pace.known, p.candidate.pace.open) == (False, 0)


def test_the_pace_of_a_prefill_worker_learns_nothing_from_a_failure():
    policy = create_policy("least_delay", SchedulerConfig())
    scheduler, ((p,), (d,)) = make_scheduler(policy), fleet(1, 1)
    scheduler.select_pair(Prompt(tokens=4000, stream=True), pairs_of({p: [d]})).release(Outcome.FAILED)
    assert (p.candidate.pace.known, p.candidate.pace.open) == (False, 0)


@pytest.mark.parametrize("learns_decode", [False, True])
@pytest.mark.parametrize("name", ["request_num", "cache_aware"])
def test_what_a_decode_worker_holds_is_kept_only_where_somebody_reads_it(name, learns_decode):
    """Half of the index's work and memory goes for nothing otherwise."""
    policies = {
        role: create_policy(of, SchedulerConfig()) for role, of in (("prefill", "cache_aware"), ("decode", name))
    }
    scheduler, ((p,), (d,)) = make_scheduler(policies, learns_decode=learns_decode), fleet(1, 1)
    pair = scheduler.select_pair(PROMPT, pairs_of({p: [d]}))
    pair.first_token()
    pair.release(Outcome.SERVED)
    holders = {p, d} if learns_decode or name == "cache_aware" else {p}
    assert set(scheduler.index.match(PROMPT.fingerprint)) == holders
    assert scheduler.ledger.audit().problems == ()


def test_what_a_decode_worker_holds_is_kept_once_a_policy_reads_it():
    scheduler, ((p,), (d,)) = make_scheduler(create_policy("request_num", SchedulerConfig())), fleet(1, 1)
    scheduler.select_pair(PROMPT, pairs_of({p: [d]})).release(Outcome.SERVED)
    scheduler.use({"decode": create_policy("cache_aware", SchedulerConfig())})
    assert set(scheduler.index.match(PROMPT.fingerprint)) == {p}
    scheduler.select_pair(PROMPT, pairs_of({p: [d]})).release(Outcome.SERVED)
    assert set(scheduler.index.match(PROMPT.fingerprint)) == {p, d}


def test_a_decode_worker_that_serves_alone_is_remembered_whatever_decides():
    """Its load is counted in tokens that it lacks."""
    scheduler, (_, (d,)) = make_scheduler(create_policy("request_num", SchedulerConfig())), fleet(0, 1)
    scheduler.select(PROMPT, pool_of([d], "decode")).release(Outcome.SERVED)
    assert set(scheduler.index.match(PROMPT.fingerprint)) == {d}


def test_a_decode_worker_that_is_chosen_alone_has_the_prefill_to_do():
    scheduler, (_, (d,)) = make_scheduler(), fleet(0, 1)
    lease = scheduler.select(PROMPT, pool_of([d], "decode"))
    assert d.load.pending_prefill_tokens == 40
    lease.release(Outcome.SERVED)


def test_a_pair_that_cannot_work_is_never_picked():
    scheduler, ((p0, p1, p2), (d0, d1)) = make_scheduler(), fleet(3, 2)
    pairs = pairs_of({p0: [d0], p1: [d1], p2: []})
    for _ in range(50):
        pair = scheduler.select_pair(PROMPT, pairs)
        assert (pair.prefill.worker, pair.decode.worker) in {(p0, d0), (p1, d1)}
        pair.release(Outcome.SERVED)


def test_a_prefill_worker_whose_partners_were_all_tried_is_not_picked():
    scheduler, ((p0, p1), (d0, d1)) = make_scheduler(), fleet()
    pairs = pairs_of({p0: [d0], p1: [d0, d1]})
    for _ in range(20):
        pair = scheduler.select_pair(PROMPT, pairs, excluding_decode=[d0])
        assert (pair.prefill.worker, pair.decode.worker) == (p1, d1)
        pair.release(Outcome.SERVED)
    with pytest.raises(NoPair):
        scheduler.select_pair(PROMPT, pairs, excluding_prefill=[p1], excluding_decode=[d0])
    assert scheduler.ledger.open_leases == 0


def test_no_pair_says_why():
    with pytest.raises(NoPair, match="tp sizes 2 and 4"):
        make_scheduler().select_pair(PROMPT, pairs_of({}, why="tp sizes 2 and 4"))


def test_near_pairs_are_preferred_among_equals_only():
    scheduler = make_scheduler(create_policy("request_num", SchedulerConfig()))
    (p,), (near, far) = fleet(1, 2)
    pairs = pairs_of({p: [near, far]}, near={(p, near)})
    first = scheduler.select_pair(PROMPT, pairs)
    second = scheduler.select_pair(PROMPT, pairs)
    assert (first.decode.worker, second.decode.worker) == (near, far)
    first.release(Outcome.SERVED)
    second.release(Outcome.SERVED)


def test_the_prefill_worker_with_a_near_partner_is_preferred_among_equals():
    scheduler = make_scheduler(create_policy("process_tokens", SchedulerConfig()))
    (p0, p1), (d,) = fleet(2, 1)
    for _ in range(20):
        pair = scheduler.select_pair(Prompt(tokens=9), pairs_of({p0: [d], p1: [d]}, near={(p1, d)}))
        assert pair.prefill.worker is p1
        pair.release(Outcome.SERVED)


def test_taking_turns_goes_before_nearness():
    scheduler = make_scheduler(create_policy("round_robin", SchedulerConfig()))
    (p,), (near, far) = fleet(1, 2)
    served = Counter()
    for _ in range(10):
        pair = scheduler.select_pair(Prompt(tokens=9), pairs_of({p: [near, far]}, near={(p, near)}))
        served[pair.decode.worker] += 1
        pair.release(Outcome.SERVED)
    assert served == {near: 5, far: 5}


def test_a_policy_that_fails_for_the_second_side_leaves_nothing_counted():
    def fail_for_decode(rows, prompt, rng):
        if rows[0].worker.role == "decode":
            raise RuntimeError("boom")
        return rows[0]

    scheduler, ((p,), (d,)) = make_scheduler(fail_for_decode), fleet(1, 1)
    with pytest.raises(PolicyError, match="boom"):
        scheduler.select_pair(PROMPT, pairs_of({p: [d]}))
    assert scheduler.ledger.open_leases == 0
    assert dict(scheduler.index.match(PROMPT.fingerprint)) == {}
    assert (p.candidate.matched_tokens, d.candidate.matched_tokens) == (0, 0)


SIDES = st.integers(0, 3)


@given(
    edges=st.sets(st.tuples(SIDES, SIDES)),
    near=st.sets(st.tuples(SIDES, SIDES)),
    tried=st.tuples(st.sets(SIDES), st.sets(SIDES)),
    name=st.sampled_from(policy_names()),
    ends=st.lists(st.tuples(st.booleans(), st.sampled_from(Outcome)), max_size=6),
)
def test_whatever_the_policy_a_pair_can_work_is_untried_and_comes_back(edges, near, tried, name, ends):
    scheduler: Scheduler = make_scheduler(create_policy(name, SchedulerConfig()))
    prefill, decode = fleet(4, 4)
    pairs = pairs_of(
        {p: [d for j, d in enumerate(decode) if (i, j) in edges] for i, p in enumerate(prefill)},
        {(prefill[i], decode[j]) for i, j in near},
    )
    excluded = ({prefill[i] for i in tried[0]}, {decode[j] for j in tried[1]})
    possible = {(prefill[i], decode[j]) for i, j in edges if i not in tried[0] and j not in tried[1]}
    open_pairs = []
    for prefill_first, outcome in ends:
        try:
            pair = scheduler.select_pair(PROMPT, pairs, excluding_prefill=excluded[0], excluding_decode=excluded[1])
        except NoPair:
            assert not possible
            return
        assert (pair.prefill.worker, pair.decode.worker) in possible
        (pair.prefill if prefill_first else pair.decode).release(outcome)
        open_pairs.append((pair, outcome))
        assert scheduler.ledger.audit().problems == ()
    for pair, outcome in open_pairs:
        pair.release(outcome)
    assert scheduler.ledger.open_leases == 0
    assert all(not worker.load.running_requests and not worker.load.active_tokens for worker in prefill + decode)
