"""request_num: the worker with the fewest running requests.

Use when: requests cost about the same, as decoding does; the default for decode workers.
Reads: running_requests. Unit: requests. Options: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("request_num", reads_matches=False)
def request_num(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the candidate with the fewest running requests."""
    return least(candidates, [candidate.load.running_requests for candidate in candidates], rng)
