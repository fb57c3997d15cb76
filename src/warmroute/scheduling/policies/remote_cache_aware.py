"""remote_cache_aware: cache_aware with the running requests that the engines report.

Use when: prompts share prefixes and the workers also get requests that do not pass this router.
Reads: matched_tokens, pending_prefill_tokens; running requests of the last report, ours where none is fresh.
Unit: tokens. Options: as cache_aware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.scheduling.choosing import polled_running
from warmroute.scheduling.policies.cache_aware import TOKENS_PER_RUNNING_REQUEST, CacheAware
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("remote_cache_aware", reads_reports=True)
@dataclass(frozen=True, slots=True)
class RemoteCacheAware(CacheAware):
    """The score of cache_aware over polled running requests."""

    def _differences(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        per_matched, per_load = self.hit_ratio_weight, self.load_balance_weight
        return [
            per_load * (row.load.pending_prefill_tokens + TOKENS_PER_RUNNING_REQUEST * polled_running(row))
            - per_matched * row.matched_tokens
            for row in candidates
        ]

    def _running(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        return [polled_running(candidate) for candidate in candidates]
