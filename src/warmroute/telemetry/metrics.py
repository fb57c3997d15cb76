"""The counters of one router: plain Python on the hot path, no locks, no label objects.

The page itself is made by `collector.py`, only when somebody scrapes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection

# From "the prefix was cached and the engine idle" to "queued behind long prompts", in seconds.
TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

RequestKey = tuple[str, str, str, int]


class Metrics:
    """What has happened since the router started. Every method of the hot path costs well under a microsecond."""

    __slots__ = (
        "_requests",
        "broken_streams",
        "deadlines",
        "decode_alone",
        "failed_attempts",
        "failovers",
        "matched_tokens",
        "prompt_tokens",
        "recomputed",
        "reported_believed_tokens",
        "reported_cached_tokens",
        "reported_prompt_tokens",
        "retries_denied",
        "ttft_counts",
        "ttft_sum",
    )

    def __init__(self) -> None:
        self._requests: dict[RequestKey, int] = {}
        self.prompt_tokens = 0
        self.matched_tokens = 0
        self.reported_prompt_tokens = 0
        self.reported_cached_tokens = 0
        self.reported_believed_tokens = 0
        self.ttft_counts = [0] * (len(TTFT_BUCKETS) + 1)
        self.ttft_sum = 0.0
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

    def request_done(self, policy: str, role: str, worker: str, status: int) -> None:
        """Count an answered request. `worker` is the worker's id, or "" when none was chosen."""
        key = (policy, role, worker, status)
        self._requests[key] = self._requests.get(key, 0) + 1

    def prompt_seen(self, prompt_tokens: int, matched_tokens: int) -> None:
        """Count an answered prompt: its tokens, and how many of them the chosen worker was believed to hold."""
        self.prompt_tokens += prompt_tokens
        self.matched_tokens += matched_tokens

    def cache_reported(self, prompt_tokens: int, cached_tokens: int, believed_tokens: int) -> None:
        """Count an answer whose usage told what was cached, beside what was believed; all in the engine's tokens."""
        self.reported_prompt_tokens += prompt_tokens
        self.reported_cached_tokens += cached_tokens
        self.reported_believed_tokens += believed_tokens

    def first_token(self, seconds: float) -> None:
        """Record one time to first token: from the complete request to the first body byte of the worker's answer."""
        self.ttft_counts[bisect_left(TTFT_BUCKETS, seconds)] += 1
        self.ttft_sum += seconds

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
        """Answered requests by (policy, role, worker id, status); a copy."""
        return dict(self._requests)

    def keep_workers(self, worker_ids: Collection[str]) -> None:
        """Drop the counts of every worker that is not in `worker_ids`, so that labels stay bounded.

        Counts of requests without a worker are kept.
        """
        gone = [key for key in self._requests if key[2] and key[2] not in worker_ids]
        for key in gone:
            del self._requests[key]
        for worker in [worker for worker in self.recomputed if worker not in worker_ids]:
            del self.recomputed[worker]
