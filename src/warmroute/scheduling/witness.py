"""Who wants to know how a choice was made. A prompt carries its witness; most have none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from warmroute.scheduling.worker import Candidate, Role


class Witness(ABC):
    """Hears of every choice that is made for one request, at the moment when the rows show what the policy saw."""

    __slots__ = ()

    @abstractmethod
    def chose(
        self, role: Role, policy: str, candidates: Sequence[Candidate], chosen: Candidate, scores: Sequence[float]
    ) -> None:
        """One of `candidates` was chosen. `scores` has one for each (the least wins), or is empty: the policy has none.

        The rows are used again for the next decision: what is to be kept of them is to be copied.
        """
