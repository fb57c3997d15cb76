"""lmetric: new prefill tokens times batch size (LMetric, arXiv 2603.15202; Dynamo's router_selection_policy=lmetric).

    score = (pending prefill tokens + uncached tokens of this prompt) x (running requests + 1), lowest wins

The batch counts the request that is placed, so an idle worker does not score 0 whatever it would have to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("lmetric")
def lmetric(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the lowest product."""
    scores = [
        (row.load.pending_prefill_tokens + prompt.tokens - row.matched_tokens) * (row.load.running_requests + 1)
        for row in candidates
    ]
    return least(candidates, scores, rng)
