"""The last minutes of a router in a bounded ring: read from its counters every few seconds, never by a request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.guard import Guard
from warmroute.telemetry.metrics import TTFT_BUCKETS, Metrics
from warmroute.telemetry.quantiles import quantile

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
HISTORY_SECONDS = 15 * 60
WINDOW_SECONDS = 60.0
"""What is told of a single worker is of this last while."""


class Sample(NamedTuple):
    """What happened in the seconds before `time` (unix seconds). None: nothing was there to measure.

    Requests count when they have ended. Times to first token are estimates from the histogram's buckets.
    """

    time: float
    requests_per_second: float
    errors_per_second: float
    ttft_p50_seconds: float | None
    ttft_p99_seconds: float | None
    hit_share: float | None
    running: int


class Recent(NamedTuple):
    """How one worker did in the last WINDOW_SECONDS. None: it was given nothing."""

    requests_per_second: float
    hit_share: float | None
    ttft_seconds: float | None


class _Totals(NamedTuple):
    requests: int
    errors: int
    prompt_tokens: int
    matched_tokens: int
    ttft_counts: tuple[int, ...]


class _Given(NamedTuple):
    requests: int = 0
    prompt_tokens: int = 0
    matched_tokens: int = 0
    first_tokens: int = 0
    ttft_seconds: float = 0.0


_NOTHING = _Given()


class History:
    """Samples of a whole router, and the last while of each of its workers. Times are handed in."""

    def __init__(self, metrics: Metrics, workers: Callable[[], Iterable[Worker]]) -> None:
        self._metrics = metrics
        self._workers = workers
        self.samples: deque[Sample] = deque(maxlen=int(HISTORY_SECONDS / INTERVAL_SECONDS))
        """Oldest first."""
        self._before: tuple[float, _Totals] | None = None
        self._earlier: tuple[float, _Totals] | None = None
        self._readings: deque[tuple[float, dict[Worker, _Given]]] = deque(maxlen=int(WINDOW_SECONDS / INTERVAL_SECONDS))

    def take(self, now: float, unix_time: float) -> None:
        """Read the counters. `now` is of a clock that never goes back; the first call only sets the beginning."""
        totals = _totals(self._metrics)
        workers = list(self._workers())
        if self._before is not None and now > self._before[0]:
            then, before = self._before
            self.samples.append(_sample(unix_time, now - then, totals, before, _running(workers)))
        self._earlier, self._before = self._before, (now, totals)
        self._readings.append((now, {worker: _given(worker) for worker in workers}))

    def latest(self, now: float, unix_time: float) -> Sample | None:
        """What happened up to this moment, from the last but one reading on: the last five to ten seconds."""
        then, before = self._earlier or self._before or (now, None)
        if before is None or now <= then:
            return None
        return _sample(unix_time, now - then, _totals(self._metrics), before, _running(self._workers()))

    def recent(self, worker: Worker, now: float) -> Recent:
        """How a worker did from the oldest reading of the last while to this moment."""
        if not self._readings:
            return Recent(0.0, None, None)
        then, readings = self._readings[0]
        given, before = _given(worker), readings.get(worker, _NOTHING)
        prompt_tokens = given.prompt_tokens - before.prompt_tokens
        answers = given.first_tokens - before.first_tokens
        return Recent(
            (given.requests - before.requests) / max(now - then, 1.0),
            (given.matched_tokens - before.matched_tokens) / prompt_tokens if prompt_tokens else None,
            (given.ttft_seconds - before.ttft_seconds) / answers if answers else None,
        )


async def keep_history(history: History) -> None:
    """Take a sample every INTERVAL_SECONDS until cancelled."""
    guard = Guard(logger, "the history")
    while True:
        with guard:
            history.take(time.monotonic(), time.time())
        await asyncio.sleep(INTERVAL_SECONDS)


def _running(workers: Iterable[Worker]) -> int:
    return sum(worker.load.running_requests for worker in workers if worker.role != "prefill")


def _given(worker: Worker) -> _Given:
    tally = worker.tally
    return _Given(tally.requests, tally.prompt_tokens, tally.matched_tokens, tally.first_tokens, tally.ttft_seconds)


def _totals(metrics: Metrics) -> _Totals:
    errors = sum(
        count
        for (_, role, _, status, _), count in metrics.requests.items()
        # A prefill leg is the first half of a request that is counted with its decode worker.
        if status >= 500 and role != "prefill"
    )
    return _Totals(metrics.answered, errors, metrics.prompt_tokens, metrics.matched_tokens, tuple(metrics.ttft.counts))


def _sample(unix_time: float, seconds: float, now: _Totals, before: _Totals, running: int) -> Sample:
    counts = [count - old for count, old in zip(now.ttft_counts, before.ttft_counts, strict=True)]
    prompt_tokens = now.prompt_tokens - before.prompt_tokens
    return Sample(
        unix_time,
        (now.requests - before.requests) / seconds,
        # The counts of a worker go with it, so that the sum may fall.
        max(0, now.errors - before.errors) / seconds,
        quantile(0.5, TTFT_BUCKETS, counts),
        quantile(0.99, TTFT_BUCKETS, counts),
        (now.matched_tokens - before.matched_tokens) / prompt_tokens if prompt_tokens else None,
        running,
    )
