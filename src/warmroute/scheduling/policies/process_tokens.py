"""process_tokens: the worker with the fewest prompt tokens still to prefill.

Use when: prompt lengths differ much and share little; the default of FastDeploy for prefill workers.
Reads: pending_prefill_tokens. Unit: tokens. Options: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("process_tokens", reads_matches=False)
def process_tokens(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the candidate with the least pending prefill."""
    return least(candidates, [candidate.load.pending_prefill_tokens for candidate in candidates], rng)
