"""dynamo: prefill blocks that would be pending plus decode blocks in use (NVIDIA Dynamo, lib/kv-router, defaults).

    cost = prefill_load_scale x (pending prefill + prompt - overlap) + active tokens, lowest wins, temperature 0

Dynamo counts in blocks of one size, which changes no comparison. The active tokens include the prompt, as there.
Its tuned variant (NVIDIA's latency sweep) has prefill_load_scale 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("dynamo")
@dataclass(frozen=True, slots=True)
class Dynamo:
    """Lowest sum of prefill and decode load."""

    prefill_load_scale: float = 1.0

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the lowest cost."""
        scale = self.prefill_load_scale
        costs = [
            scale * (row.load.pending_prefill_tokens + prompt.tokens - row.matched_tokens) + row.load.active_tokens
            for row in candidates
        ]
        return least(candidates, costs, rng)
