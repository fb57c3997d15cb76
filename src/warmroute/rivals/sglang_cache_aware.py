"""sglang_cache_aware: longest prefix, unless the fleet is out of balance (sglang-router 0.3.2, cache_aware, defaults).

1. max - min running requests > 64 and max > 1.5 x min: the worker with the fewest running requests.
2. Longest match / prompt > 0.3: a worker that holds it. One is tried, the last one that was given this prefix.
3. Otherwise the worker with the smallest prefix tree.

Of workers that hold the same longest prefix the one that was chosen last stands for the node's "last tenant". A tree
grows by what it does not hold yet; its bound, 2^26 characters, is not reached here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_BALANCE_ABS = 64
_BALANCE_REL = 1.5
_CACHE_THRESHOLD = 0.3


@policy("sglang_cache_aware", takes_turns=True)
class SglangCacheAware:
    """Two modes for the whole fleet, with the memory that the trees would be."""

    def __init__(self) -> None:
        self._turn = 0
        self._last_turn: dict[str, int] = {}
        self._tree: dict[str, int] = {}

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick by load or by prefix, and remember what was placed."""
        chosen = self._choose(candidates, prompt, rng)
        name = chosen.worker.id
        self._turn += 1
        self._last_turn[name] = self._turn
        self._tree[name] = self._tree.get(name, 0) + prompt.tokens - chosen.matched_tokens
        return chosen

    def _choose(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        running = [row.load.running_requests for row in candidates]
        if max(running) - min(running) > _BALANCE_ABS and max(running) > _BALANCE_REL * min(running):
            return least(candidates, running, rng)
        longest = max(row.matched_tokens for row in candidates)
        if longest > _CACHE_THRESHOLD * prompt.tokens:
            holders = [row for row in candidates if row.matched_tokens == longest]
            return least(holders, [-self._last_turn.get(row.worker.id, 0) for row in holders], rng)
        return least(candidates, [self._tree.get(row.worker.id, 0) for row in candidates], rng)
