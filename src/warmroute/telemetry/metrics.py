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
        "decode_alone",
        "matched_tokens",
        "prompt_tokens",
        "recomputed",
        "reported_believed_tokens",
        "reported_cached_tokens",
        "reported_prompt_tokens",
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
