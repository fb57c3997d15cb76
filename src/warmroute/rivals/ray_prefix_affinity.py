"""ray_prefix_affinity: the replicas with the best match, else the smallest tree (Ray Serve, PrefixCacheAffinityRouter).

1. Match / prompt >= 0.1: the replicas that have it, the better of two at random by queue length.
2. Otherwise the replica with the smallest prefix tree.

The default imbalance threshold is infinite, so load alone never decides. Trees are not evicted by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policies.power_of_two import power_of_two
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_MATCH_RATE = 0.1


@policy("ray_prefix_affinity", takes_turns=True)
class RayPrefixAffinity:
    """Affinity by match rate, with the size that the trees would have."""

    def __init__(self) -> None:
        self._tree: dict[str, int] = {}

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick a holder or the smallest tree, and let that grow."""
        longest = max(row.matched_tokens for row in candidates)
        if longest and longest >= _MATCH_RATE * prompt.tokens:
            chosen = power_of_two([row for row in candidates if row.matched_tokens == longest], prompt, rng)
        else:
            chosen = least(candidates, [self._tree.get(row.worker.id, 0) for row in candidates], rng)
        name = chosen.worker.id
        self._tree[name] = self._tree.get(name, 0) + prompt.tokens - chosen.matched_tokens
        return chosen
