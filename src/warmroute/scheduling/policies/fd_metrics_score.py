"""fd_metrics_score: FastDeploy's score from local counters, running + waiting x waiting-weight.

Use when: a FastDeploy configuration names it. A router cannot see what waits inside an engine, so waiting is 0 here,
as it is there, and the choice is that of request_num; fd_remote_metrics_score asks the engines.
Reads: running_requests. Unit: requests.
Options: waiting_weight, accepted because the formula names it, without effect as long as waiting is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("fd_metrics_score", reads_matches=False)
@dataclass(frozen=True, slots=True)
class FdMetricsScore:
    """Fewest running requests of our own leases."""

    waiting_weight: float = 1.0

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate with the lowest local score."""
        return least(candidates, [candidate.load.running_requests for candidate in candidates], rng)
