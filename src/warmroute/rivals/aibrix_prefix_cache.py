"""aibrix_prefix_cache: best match among workers that are not much busier than the mean (AIBrix, prefix-cache).

1. max - min running requests > 8: the fewest running requests.
2. By match, best first, then by running requests: the first with running <= mean + 1 x standard deviation.
3. None, or no match: the fewest running requests.

The figures are those of the code (its README says 16 and 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean, pstdev

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_IMBALANCE = 8
_DEVIATIONS = 1.0


@policy("aibrix_prefix_cache")
def aibrix_prefix_cache(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the best match that is not overloaded."""
    running = [row.load.running_requests for row in candidates]
    if max(running) - min(running) <= _IMBALANCE:
        limit = fmean(running) + _DEVIATIONS * pstdev(running)
        fit = [row for row in candidates if row.matched_tokens and row.load.running_requests <= limit]
        if fit:
            longest = max(row.matched_tokens for row in fit)
            best = [row for row in fit if row.matched_tokens == longest]
            return least(best, [row.load.running_requests for row in best], rng)
    return least(candidates, running, rng)
