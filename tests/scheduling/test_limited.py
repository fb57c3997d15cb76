"""The limit on requests of a worker: kept by every choice, and told apart from there being nobody."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.limited import LimitedScheduler, WatchedLedger
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Full, NoPair, NoWorker
from warmroute.scheduling.worker import ROLES, Pool, Worker

PROMPT = Prompt(tokens=10)


def scheduler(limit: int) -> LimitedScheduler:
    def first(candidates, prompt, rng):
        return candidates[0]

    return LimitedScheduler(
        dict.fromkeys(ROLES, first),
        PrefixIndex(Ladder.default(), 0, 0),
        WatchedLedger(),
        limit=limit,
        rng=Random(1),
        clock=time.monotonic,
    )


def pool(role, *workers):
    return Pool(role, [worker.candidate for worker in workers])


def workers(role, *names):
    return [Worker(name, f"http://{name}", role) for name in names]


def test_the_next_worker_is_taken_when_one_is_full_and_then_none() -> None:
    limited = scheduler(2)
    one, two = workers("mixed", "a:1", "b:1")
    both = pool("mixed", one, two)
    leases = [limited.select(PROMPT, both) for _ in range(4)]
    assert [lease.worker for lease in leases] == [one, one, two, two]
    with pytest.raises(Full):
        limited.select(PROMPT, both)
    assert limited.must_wait(both, ())
    leases[2].release(Outcome.SERVED)
    assert not limited.must_wait(both, ())
    assert limited.must_wait(both, (two,))
    with pytest.raises(Full):
        limited.select(PROMPT, both, excluding=(two,))
    assert limited.select(PROMPT, both, excluding=(one,)).worker is two
    for lease in leases:
        lease.release(Outcome.SERVED)


def test_nobody_is_something_else_than_no_place() -> None:
    limited = scheduler(1)
    (one,) = workers("mixed", "a:1")
    for someone_waits in (False, True):
        limited.someone_waits = someone_waits
        assert not limited.must_wait(Pool("mixed"), ())
        with pytest.raises(NoWorker):
            limited.select(PROMPT, Pool("mixed"))
        with pytest.raises(NoWorker):
            limited.select(PROMPT, pool("mixed", one), excluding=(one,))
        with pytest.raises(NoPair):
            limited.select_pair(PROMPT, PairPool())
        assert not limited.pair_must_wait(PairPool(), (), ())


def test_nobody_overtakes_who_waits() -> None:
    limited = scheduler(1)
    (one,) = workers("mixed", "a:1")
    prefill, decode = workers("prefill", "p:1") + workers("decode", "d:1")
    pairs = PairPool(pool("prefill", prefill), pool("decode", decode), {prefill: pool("decode", decode)})
    limited.someone_waits = True
    with pytest.raises(Full):
        limited.select(PROMPT, pool("mixed", one))
    with pytest.raises(Full):
        limited.select_pair(PROMPT, pairs)


def test_a_pair_needs_a_place_on_both_sides() -> None:
    limited = scheduler(1)
    prefill, other = workers("prefill", "p:1", "p:2")
    decode, far = workers("decode", "d:1", "d:2")
    pairs = PairPool(
        pool("prefill", prefill, other),
        pool("decode", decode, far),
        {prefill: pool("decode", decode), other: pool("decode", decode)},
    )
    lease = limited.select_pair(PROMPT, pairs)
    assert limited.pair_must_wait(pairs, (), ())
    with pytest.raises(Full):  # the other prefill worker is free, the one decode worker that suits it is not
        limited.select_pair(PROMPT, pairs)
    lease.prefill.release(Outcome.SERVED)
    assert limited.pair_must_wait(pairs, (), ())
    lease.decode.release(Outcome.SERVED)
    assert not limited.pair_must_wait(pairs, (), ())
    again = limited.select_pair(PROMPT, pairs)
    assert again.prefill.worker is prefill
    again.release(Outcome.SERVED)


def test_every_end_of_a_lease_is_told() -> None:
    limited = scheduler(1)
    told = []
    limited.places.on_close = lambda: told.append(1)
    (one,) = workers("mixed", "a:1")
    lease = limited.select(PROMPT, pool("mixed", one))
    lease.release(Outcome.ABORTED)
    lease.release(Outcome.ABORTED)
    assert told == [1]
    assert limited.ledger.audit().consistent


@given(
    limit=st.integers(1, 3),
    steps=st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=60),
    excluded=st.sets(st.integers(0, 2)),
)
def test_no_worker_ever_has_more_than_the_limit(limit, steps, excluded) -> None:
    """None selects, a number ends one of the open leases."""
    limited = scheduler(limit)
    fleet = workers("mixed", "a:1", "b:1", "c:1")
    everybody, without = pool("mixed", *fleet), [fleet[number] for number in excluded]
    leases = []
    for step in steps:
        if step is None:
            allowed = [worker for worker in fleet if worker not in without]
            has_place = any(worker.load.running_requests < limit for worker in allowed)
            try:
                leases.append(limited.select(PROMPT, everybody, excluding=without))
            except Full:
                assert allowed
                assert not has_place
            except NoWorker:
                assert not allowed
            else:
                assert has_place
                assert leases[-1].worker in allowed
        elif leases:
            leases.pop(step % len(leases)).release(Outcome.SERVED)
        assert all(worker.load.running_requests <= limit for worker in fleet)
    for lease in leases:
        lease.release(Outcome.SERVED)
    assert limited.ledger.audit().consistent
