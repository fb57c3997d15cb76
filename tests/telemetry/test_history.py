"""The ring of samples and the last while of each worker, from counters and times that the test sets."""

from __future__ import annotations

import pytest
from tests.support.pools import make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.worker import Worker
from warmroute.telemetry.history import (
    HISTORY_SECONDS,
    INTERVAL_SECONDS,
    WINDOW_SECONDS,
    History,
    Recent,
)
from warmroute.telemetry.metrics import Metrics


class Rig:
    """A router's counters without the router."""

    def __init__(self, *workers: Worker) -> None:
        self.metrics = Metrics()
        self.ledger = Ledger()
        self.workers = list(workers)
        self.history = History(self.metrics, lambda: self.workers)
        self.now = 100.0

    def serve(self, worker: Worker, tokens: int = 100, matched: int = 0, ttft: float = 0.2, status: int = 200) -> None:
        lease = self.ledger.open(worker, Prompt(tokens=tokens), matched)
        worker.tally.first_tokens += 1
        worker.tally.ttft_seconds += ttft
        self.metrics.ttft.observe(ttft)
        self.metrics.answered += 1
        self.metrics.prompt_tokens += tokens
        self.metrics.matched_tokens += matched
        self.metrics.request_done("p", worker.role, worker.id, status)
        lease.release(Outcome.SERVED)

    def take(self) -> None:
        self.history.take(self.now, 1_000_000 + self.now)
        self.now += INTERVAL_SECONDS


def test_a_sample_tells_of_the_time_since_the_one_before():
    worker = make_worker("w")
    rig = Rig(worker)
    rig.serve(worker)
    rig.take()
    assert list(rig.history.samples) == []
    for _ in range(9):
        rig.serve(worker, tokens=100, matched=60, ttft=0.2)
    rig.serve(worker, tokens=100, matched=60, ttft=0.2, status=503)
    open_lease = rig.ledger.open(worker, Prompt(tokens=1), 0)
    rig.take()
    (sample,) = rig.history.samples
    assert sample.time == 1_000_105
    assert (sample.requests_per_second, sample.errors_per_second) == (2.0, 0.2)
    assert sample.hit_share == pytest.approx(0.6)
    assert sample.running == 1
    open_lease.release(Outcome.SERVED)
    # 0.2 s is in the bucket from 0.1 to 0.25 s.
    assert sample.ttft_p50_seconds == pytest.approx(0.175)
    assert sample.ttft_p99_seconds == pytest.approx(0.2485)


def test_a_quiet_time_has_no_times_and_no_share():
    rig = Rig(make_worker("w"))
    rig.take()
    rig.take()
    assert list(rig.history.samples) == [(1_000_105, 0.0, 0.0, None, None, None, 0)]


def test_the_prefill_half_of_a_request_is_not_counted_twice():
    rig = Rig(make_worker("p", role="prefill"), make_worker("d", role="decode"))
    rig.take()
    for worker in rig.workers:
        rig.metrics.request_done("p", worker.role, worker.id, 503)
    rig.metrics.answered += 1
    rig.take()
    sample = rig.history.samples[0]
    assert (sample.requests_per_second, sample.errors_per_second) == (1 / INTERVAL_SECONDS, 1 / INTERVAL_SECONDS)


def test_counts_that_went_with_their_worker_are_no_negative_rate():
    worker = make_worker("w")
    rig = Rig(worker)
    rig.serve(worker)
    rig.take()
    rig.workers.clear()
    rig.metrics.keep_workers(())
    rig.take()
    assert rig.history.samples[0].requests_per_second == 0


def test_a_clock_that_stands_still_makes_no_sample():
    rig = Rig()
    rig.history.take(1.0, 2.0)
    rig.history.take(1.0, 2.0)
    assert list(rig.history.samples) == []


def test_the_ring_is_bounded():
    rig = Rig()
    for _ in range(int(HISTORY_SECONDS / INTERVAL_SECONDS) + 10):
        rig.take()
    samples = rig.history.samples
    assert samples[-1].time - samples[0].time == HISTORY_SECONDS - INTERVAL_SECONDS


def test_a_worker_is_shown_as_it_did_lately():
    worker = make_worker("w")
    rig = Rig(worker)
    rig.serve(worker, matched=0, ttft=9.0)
    rig.take()
    for _ in range(4):
        rig.serve(worker, tokens=100, matched=50, ttft=0.5)
    assert rig.history.recent(worker, rig.now) == Recent(4 / INTERVAL_SECONDS, 0.5, 0.5)
    for _ in range(int(WINDOW_SECONDS / INTERVAL_SECONDS)):
        rig.take()
    assert rig.history.recent(worker, rig.now) == Recent(0.0, None, None)


def test_a_worker_that_came_after_the_readings_is_counted_from_its_beginning():
    rig, newcomer = Rig(), make_worker("new")
    assert rig.history.recent(newcomer, rig.now) == Recent(0.0, None, None)
    rig.take()
    rig.serve(newcomer, tokens=10, matched=10)
    assert rig.history.recent(newcomer, rig.now).hit_share == 1.0


def test_the_latest_is_up_to_this_moment():
    worker = make_worker("w")
    rig = Rig(worker)
    assert rig.history.latest(rig.now, 0.0) is None
    rig.take()
    rig.serve(worker)
    at = rig.now - INTERVAL_SECONDS + 1
    latest = rig.history.latest(at, 7.0)
    assert latest is not None
    assert (latest.time, latest.requests_per_second) == (7.0, 1.0)
    rig.take()
    rig.serve(worker)
    # From the last but one reading on: a rate over one second would jump.
    latest = rig.history.latest(rig.now, 8.0)
    assert latest is not None
    assert latest.requests_per_second == 2 / (2 * INTERVAL_SECONDS)
