"""smg_cache_aware: longest prefix with a gate for each worker (smg 1.13.0, cache_aware, defaults).

1. Longest match / prompt > 0.3: a worker that holds it, unless its load > mean + max(4, min(64, 2 sigma)) and its
   load > 1.5 x mean.
2. Otherwise the fewest running requests, then the fewest requests so far.

Load is running requests. The gate is the one that the command's help describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean, pstdev

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_CACHE_THRESHOLD = 0.3
_BALANCE_ABS = 64
_LEAST_MARGIN = 4
_BALANCE_REL = 1.5


@policy("smg_cache_aware", takes_turns=True)
class SmgCacheAware:
    """Prefix first, load where the holder is busier than the rest."""

    def __init__(self) -> None:
        self._turn = 0
        self._last_turn: dict[str, int] = {}
        self._processed: dict[str, int] = {}

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the holder or the least loaded, and count."""
        chosen = self._choose(candidates, prompt, rng)
        name = chosen.worker.id
        self._turn += 1
        self._last_turn[name] = self._turn
        self._processed[name] = self._processed.get(name, 0) + 1
        return chosen

    def _choose(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        running = [row.load.running_requests for row in candidates]
        longest = max(row.matched_tokens for row in candidates)
        if longest > _CACHE_THRESHOLD * prompt.tokens:
            holders = [row for row in candidates if row.matched_tokens == longest]
            holder = least(holders, [-self._last_turn.get(row.worker.id, 0) for row in holders], rng)
            mean = fmean(running)
            margin = max(_LEAST_MARGIN, min(_BALANCE_ABS, 2 * pstdev(running)))
            load = holder.load.running_requests
            if not (load > mean + margin and load > _BALANCE_REL * mean):
                return holder
        fewest = min(running)
        idlest = [row for row, load in zip(candidates, running, strict=True) if load == fewest]
        return least(idlest, [self._processed.get(row.worker.id, 0) for row in idlest], rng)
