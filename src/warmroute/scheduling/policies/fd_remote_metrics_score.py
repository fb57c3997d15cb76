"""fd_remote_metrics_score: FastDeploy's score from polled metrics, running + waiting x waiting-weight.

Use when: the workers also get requests that do not pass this router. Between two polls the figures stand still, so
with short poll intervals only.
Reads: running and waiting requests of the last report; our own running requests and 0 where no report is fresh.
Unit: requests. Options: waiting_weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least, polled_running, polled_waiting
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("fd_remote_metrics_score", reads_reports=True, reads_matches=False)
@dataclass(frozen=True, slots=True)
class FdRemoteMetricsScore:
    """Least running + waiting x waiting_weight as the engines report it."""

    waiting_weight: float = 1.0

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate with the lowest reported score."""
        weight = self.waiting_weight
        scores = [polled_running(candidate) + weight * polled_waiting(candidate) for candidate in candidates]
        return least(candidates, scores, rng)
