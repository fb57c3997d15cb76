"""cache_aware: the worker that has the least to do until this prompt is prefilled.

Use when: prompts share prefixes (conversations, agents, long system prompts) and the weights are to be set by hand.
Reads: matched_tokens, pending_prefill_tokens, running_requests. Unit: tokens.
Options: hit_ratio_weight, load_balance_weight, balance_abs_threshold, balance_rel_threshold.

    score = hit_ratio_weight x uncached tokens of this prompt
          + load_balance_weight x (pending prefill tokens + 125 x running requests)

Warm and idle workers are compared in one unit, the tokens that must be computed first, so a long match is worth a
queue and a short one is not. When a balance threshold is set and the spread of running requests exceeds it,
process_tokens decides instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least, lopsided
from warmroute.scheduling.policies.process_tokens import process_tokens
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

# What one running request is worth in prefill tokens: decoding slows the prefill beside it. 500 bytes of prompt,
# the figure that gave the lowest time to first token on recorded conversations.
TOKENS_PER_RUNNING_REQUEST = 125


@policy("cache_aware")
@dataclass(frozen=True, slots=True)
class CacheAware:
    """Least weighted work until this prompt is prefilled, in tokens."""

    hit_ratio_weight: float = 1.0
    load_balance_weight: float = 1.0
    balance_abs_threshold: float | None = None
    balance_rel_threshold: float | None = None

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate with the lowest score."""
        absolute, relative = self.balance_abs_threshold, self.balance_rel_threshold
        if (absolute is not None or relative is not None) and lopsided(self._running(candidates), absolute, relative):
            return process_tokens(candidates, prompt, rng)
        return least(candidates, self._differences(candidates), rng)

    def _differences(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """What is left of the scores without what is the same for all, the tokens of the prompt; in any unit."""
        per_matched, per_load = self.hit_ratio_weight, self.load_balance_weight
        if per_matched == per_load > 0:  # as by default: then whole numbers do
            return [
                row.load.pending_prefill_tokens
                + TOKENS_PER_RUNNING_REQUEST * row.load.running_requests
                - row.matched_tokens
                for row in candidates
            ]
        return [
            per_load * (row.load.pending_prefill_tokens + TOKENS_PER_RUNNING_REQUEST * row.load.running_requests)
            - per_matched * row.matched_tokens
            for row in candidates
        ]

    def scores(self, candidates: Sequence[Candidate], prompt: Prompt) -> Sequence[float]:
        """The score of each candidate in tokens, for explanations; not what decides when the load is lopsided."""
        return [
            self.hit_ratio_weight * (prompt.tokens - candidate.matched_tokens)
            + self.load_balance_weight * (candidate.load.pending_prefill_tokens + TOKENS_PER_RUNNING_REQUEST * requests)
            for candidate, requests in zip(candidates, self._running(candidates), strict=True)
        ]

    def _running(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        return [candidate.load.running_requests for candidate in candidates]
