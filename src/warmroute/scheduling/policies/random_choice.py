"""random: any worker, each equally likely.

Use when: a baseline is wanted that knows nothing, or requests are alike and workers many.
Reads: nothing. Options: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("random", reads_matches=False)
def random_choice(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick any candidate."""
    return rng.choice(candidates)
