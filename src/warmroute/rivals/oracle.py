"""oracle: the least predicted time to first token, with exact knowledge of what is cached. A bound, not a rival.

It asks the engines themselves at the moment of the choice, which no router can do: for the seconds until a prompt that
is sent now would have its first token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate, Worker


@policy("oracle")
class Oracle:
    """`foresee` tells the seconds until the first token of a prompt on a worker."""

    def __init__(self, foresee: Callable[[Worker, Prompt], float]) -> None:
        self._foresee = foresee

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the soonest."""
        return least(candidates, [self._foresee(row.worker, prompt) for row in candidates], rng)
