"""The counters of one router: plain Python on the hot path, no locks, no label objects.

What is told of each request is put into lists, and counted when many have come or somebody reads: in one go that takes
a fraction of the time. The page itself is made by `collector.py`, only when somebody scrapes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from itertools import compress

from warmroute.scheduling.worker import Tally
from warmroute.telemetry.endings import Batch, Endings
from warmroute.telemetry.histogram import BufferedHistogram, Histogram

# All in seconds. From "the prefix was cached and the engine idle" to "queued behind long prompts".
TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
# From a small model on a large accelerator to a large batch on a small one.
INTER_TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)
# From a request for an idle connection to one that waited for tokens, a place or a second worker.
ADDED_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
QUEUE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
LAG_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

OUTCOMES = ("served", "error", "refused", "failed", "broken", "aborted")
"""How a request ended: a worker's answer below 400; one from 400 on; the router's own answer because of the request or
because nobody was there; its own answer because workers failed; an answer that broke off; the client left.
"""

RequestKey = tuple[str, str, str, int, str]
"""Policy, role, worker id ("" when none was chosen), status, outcome."""

SETTLE_MASK = 511
"""Lists are counted whenever another 512 requests are over."""


class Metrics:
    """What has happened since the router started.

    With `records` False, requests are neither counted by how they ended nor timed. Edge counters count anyway.
    """

    __slots__ = (
        "_added",
        "_duration",
        "_requests",
        "answered",
        "broken_streams",
        "deadlines",
        "decode_alone",
        "endings",
        "failed_attempts",
        "failovers",
        "inter_token",
        "loop_lag",
        "lost_access_lines",
        "matched_tokens",
        "prompt_tokens",
        "queue_drops",
        "queue_length",
        "queue_wait",
        "received",
        "recomputed",
        "records",
        "reported_believed_tokens",
        "reported_cached_tokens",
        "reported_error_tokens",
        "reported_prompt_tokens",
        "retries_denied",
        "ttft",
    )

    def __init__(self, *, records: bool = True) -> None:
        self.records = records
        self.received = 0
        """Inference requests that came; those that are not `answered` are running."""
        self.answered = 0
        self._requests: Counter[RequestKey] = Counter()
        self.endings = Endings()
        """Where requests that are over are put down, if anybody counts them."""
        if records:
            self.endings.read_by(self._count)
        self.lost_access_lines: Callable[[], int] = int
        """How many lines of the access log came faster than the disk took them, or were not taken by it."""
        self.prompt_tokens = 0
        """Of the prompts that were answered."""
        self.matched_tokens = 0
        """So many of them the chosen worker was believed to hold."""
        self.reported_prompt_tokens = 0
        self.reported_cached_tokens = 0
        self.reported_believed_tokens = 0
        self.reported_error_tokens = 0
        self.ttft = BufferedHistogram(TTFT_BUCKETS)
        self.inter_token = BufferedHistogram(INTER_TOKEN_BUCKETS)
        self._duration = Histogram(DURATION_BUCKETS)
        self._added = Histogram(ADDED_BUCKETS)
        self.loop_lag = Histogram(LAG_BUCKETS)
        self.queue_length = 0
        """Requests that wait for a place on a worker."""
        self.queue_wait = Histogram(QUEUE_BUCKETS)
        self.queue_drops: Counter[str] = Counter()
        """By reason: requests that did not get a place."""
        self.recomputed: Counter[str] = Counter()
        """By prefill worker id: answers without a handle, after which the decode worker computed the prompt again."""
        self.decode_alone: Counter[str] = Counter()
        """By reason: requests that a decode worker served without a prefill worker."""

        self.failed_attempts: Counter[str] = Counter()
        """By reason: attempts at a request on one worker (or leg of a pair) that failed."""
        self.failovers: Counter[str] = Counter()
        """By the reason of the attempt before: attempts that followed a failed one."""
        self.broken_streams: Counter[str] = Counter()
        """By reason: event streams that broke after the client had a part of them."""
        self.deadlines: Counter[str] = Counter()
        """By deadline: how often one was over."""
        self.retries_denied = 0
        """Requests that the retry budget did not allow to be tried again."""

    def settle(self) -> None:
        """Count what is in the lists. To be called every few hundred requests, so that they stay short."""
        self.endings.settle()
        self.ttft.settle()
        self.inter_token.settle()

    def _count(self, batch: Batch) -> None:
        for (_, status, outcome, policy, role, worker, _), count in batch.counts.items():
            self._requests[policy, role, "" if worker is None else worker.id, status, outcome] += count
        if all(outcome == "served" and worker is not None for _, _, outcome, _, _, worker, _ in batch.counts):
            seconds, added = list(batch.seconds), list(batch.added)
        else:
            pairs = zip(batch.outcomes, batch.workers, strict=True)
            timed = [outcome == "served" and worker is not None for outcome, worker in pairs]
            seconds, added = list(compress(batch.seconds, timed)), list(compress(batch.added, timed))
        self._duration.observe_all(seconds)
        self._added.observe_all(added)

    @property
    def duration(self) -> Histogram:
        """From the complete request to the end of an answer that was served."""
        self.endings.settle()
        return self._duration

    @property
    def added(self) -> Histogram:
        """From the complete request to its being on the way to the worker that served it."""
        self.endings.settle()
        return self._added

    def request_done(self, policy: str, role: str, worker: str, status: int, outcome: str = "") -> None:
        """Count a request that is over; without an outcome, a worker's answer is what its status says."""
        if self.records:
            self._requests[policy, role, worker, status, outcome or ("served" if status < 400 else "error")] += 1

    def cache_reported(self, tally: Tally, prompt_tokens: int, cached_tokens: int, believed_tokens: int) -> None:
        """Count an answer whose usage told what was cached, beside what was believed; all in the engine's tokens."""
        self.reported_prompt_tokens += prompt_tokens
        self.reported_cached_tokens += cached_tokens
        self.reported_believed_tokens += believed_tokens
        self.reported_error_tokens += abs(believed_tokens - cached_tokens)
        tally.reported_prompt_tokens += prompt_tokens
        tally.reported_cached_tokens += cached_tokens

    def streamed(self, tally: Tally, mean: float) -> None:
        """Record a stream by the mean time between two of its pieces, in seconds."""
        self.inter_token.observe(mean)
        tally.streams += 1
        tally.inter_token_seconds += mean

    def pd_recomputed(self, prefill_worker: str) -> None:
        """Count a prefill worker's answer that handed nothing over."""
        self.recomputed[prefill_worker] += 1

    def pd_decode_alone(self, reason: str) -> None:
        """Count a request that goes to a decode worker alone."""
        self.decode_alone[reason] += 1

    def attempt_failed(self, reason: str) -> None:
        """Count an attempt that failed."""
        self.failed_attempts[reason] += 1

    def failed_over(self, reason: str) -> None:
        """Count an attempt that follows one which failed for `reason`."""
        self.failovers[reason] += 1

    def stream_broken(self, reason: str) -> None:
        """Count an event stream that broke in the middle."""
        self.broken_streams[reason] += 1

    def deadline_over(self, deadline: str) -> None:
        """Count a deadline that was over."""
        self.deadlines[deadline] += 1

    @property
    def requests(self) -> dict[RequestKey, int]:
        """Requests that are over, by how they ended; a copy."""
        self.settle()
        return dict(self._requests)

    def keep_workers(self, worker_ids: Collection[str]) -> None:
        """Drop the counts of every worker that is not in `worker_ids`, so that labels stay bounded.

        Counts of requests without a worker are kept.
        """
        self.settle()
        gone = [key for key in self._requests if key[2] and key[2] not in worker_ids]
        for key in gone:
            del self._requests[key]
        for worker in [worker for worker in self.recomputed if worker not in worker_ids]:
            del self.recomputed[worker]
