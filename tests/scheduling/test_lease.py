"""The lease: both methods idempotent, the index told how it went, and nothing lost when it is dropped."""

from __future__ import annotations

import gc
import logging
from itertools import product

import pytest
from tests.support.pools import SMALL_LADDER, chain, make_scheduler, make_worker, pool_of

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Load, Worker

FINGERPRINT = chain("abc")
TOKENS = SMALL_LADDER.tokens_at(3)


def open_lease(ledger: Ledger | None = None) -> tuple[Scheduler, Worker, Lease]:
    scheduler, worker = make_scheduler(ledger=ledger), make_worker("w3")
    return scheduler, worker, scheduler.select(Prompt(tokens=40, fingerprint=FINGERPRINT), pool_of([worker]))


def figures(load: Load) -> tuple[int, int, int]:
    return load.running_requests, load.pending_prefill_tokens, load.active_tokens


@pytest.mark.parametrize("calls", list(product(["first_token", *Outcome], repeat=3)), ids=str)
def test_any_sequence_of_calls_gives_back_once(calls: tuple[str | Outcome, ...]):
    scheduler, worker, lease = open_lease()
    released = False
    for call in calls:
        if isinstance(call, Outcome):
            lease.release(call)
            released = True
        else:
            lease.first_token()
        assert lease.is_open is not released
        assert figures(worker.load) == ((0, 0, 0) if released else (1, 0, 40))
        assert scheduler.ledger.audit().consistent
    lease.release(Outcome.ABORTED)
    assert figures(worker.load) == (0, 0, 0)


@pytest.mark.parametrize(
    ("answered", "outcome", "learned"),
    [
        (False, Outcome.SERVED, True),
        (False, Outcome.FAILED, False),
        (False, Outcome.ABORTED, False),
        (True, Outcome.SERVED, True),
        (True, Outcome.FAILED, True),
        (True, Outcome.ABORTED, True),
    ],
)
def test_what_is_learned(answered: bool, outcome: Outcome, learned: bool):
    """A worker that has begun to answer has the prompt in its cache, however the answer ends."""
    scheduler, worker, lease = open_lease()
    assert scheduler.index.tokens(worker) == TOKENS
    if answered:
        lease.first_token()
    lease.release(outcome)
    assert scheduler.index.tokens(worker) == (TOKENS if learned else 0)


@pytest.mark.parametrize("answered", [False, True])
def test_a_dropped_lease_gives_everything_back_and_says_so(answered: bool, caplog: pytest.LogCaptureFixture):
    scheduler, worker, lease = open_lease()
    if answered:
        lease.first_token()
    with caplog.at_level(logging.WARNING):
        del lease
        gc.collect()
    assert figures(worker.load) == (0, 0, 0)
    assert (scheduler.ledger.lost_leases, scheduler.ledger.open_leases) == (1, 0)
    assert scheduler.ledger.audit().consistent
    assert "w3" in caplog.text
    # The collector may have come in the middle of a change to the index, so that is left for the next change.
    assert scheduler.index.tokens(worker) == TOKENS
    scheduler.index.sweep(0.0)
    assert scheduler.index.tokens(worker) == (TOKENS if answered else 0)


def test_a_lease_in_a_cycle_is_found_by_the_collector(caplog: pytest.LogCaptureFixture):
    """The usual way to lose one: an exception whose traceback holds the frame that holds the lease."""
    scheduler, worker, lease = open_lease()
    cycle = [lease]
    cycle.append(cycle)
    del lease, cycle
    gc.collect()
    assert (figures(worker.load), scheduler.ledger.lost_leases) == ((0, 0, 0), 1)
    assert "dropped" in caplog.text


def test_a_released_lease_is_dropped_silently(caplog: pytest.LogCaptureFixture):
    scheduler, _, lease = open_lease()
    lease.release(Outcome.SERVED)
    del lease
    gc.collect()
    assert (scheduler.ledger.lost_leases, caplog.text) == (0, "")


def test_a_ledger_that_keeps_stacks_tells_who_opened_a_lost_lease(caplog: pytest.LogCaptureFixture):
    def forgetful_handler() -> None:
        open_lease(Ledger(keep_stacks=True))

    forgetful_handler()
    gc.collect()
    assert "in forgetful_handler" in caplog.text
    assert "in open_lease" in caplog.text


def test_repr_tells_the_state():
    _, _, lease = open_lease()
    assert repr(lease) == "Lease('w3', open, uncached_tokens=40, policy='random')"
    lease.release(Outcome.SERVED)
    assert "closed" in repr(lease)
