"""mooncake_min_ttft: the least predicted time to first token (Mooncake, FAST'25, Algorithm 1).

    predicted TTFT = prefill time of what is queued + prefill time of what the worker lacks of this prompt, least wins

All workers of a comparison prefill at one known speed, so the times are compared as tokens. Without a store of KV
caches that workers share there is no transfer term, and without a latency bound nothing is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("mooncake_min_ttft")
def mooncake_min_ttft(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the soonest."""
    return least(candidates, [row.load.pending_prefill_tokens - row.matched_tokens for row in candidates], rng)
