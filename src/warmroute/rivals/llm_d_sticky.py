"""llm_d_sticky: the worker that has the prefix until it is too busy (llm-d, "Sticky until saturated", 2026-08-17).

1. Candidates are the workers that hold at least 0.8 of the prompt, if there are any; of 100 requests one explores and
   skips this.
2. If the least loaded of those has `gap_tokens` more pending than the least loaded of all, all are candidates.
3. The candidate with the fewest pending uncached tokens (token-load-scorer).

The gap is the engine's prefill speed times the time to first token that is tolerated: 20,480 tok/s x 14 s there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_AFFINITY = 0.8
_EXPLORE = 0.01


@policy("llm_d_sticky")
@dataclass(frozen=True, slots=True)
class LlmDSticky:
    """Affinity as a filter, then the least pending."""

    gap_tokens: int = 286_720

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the least loaded of those that the filter leaves."""
        sticky = [row for row in candidates if row.matched_tokens >= _AFFINITY * prompt.tokens]
        if sticky and len(sticky) < len(candidates) and rng.random() >= _EXPLORE:
            gap = min(map(_pending, sticky)) - min(map(_pending, candidates))
            if gap <= self.gap_tokens:
                candidates = sticky
        return least(candidates, [_pending(row) for row in candidates], rng)


def _pending(row: Candidate) -> int:
    return row.load.pending_prefill_tokens
