"""power_of_two: two workers at random, then the one with fewer running requests.

Use when: several routers share the workers and must not all run to the same one.
Reads: running_requests of two workers. Unit: requests. Options: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("power_of_two", reads_matches=False)
def power_of_two(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the less busy of two different candidates."""
    if len(candidates) == 1:
        return candidates[0]
    # Their order is random too, so the first one wins a tie fairly.
    first, second = rng.sample(candidates, 2)
    return second if second.load.running_requests < first.load.running_requests else first
