"""bounded_hash: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv 1608.01350).

The key is the session, or the head of the prompt where there is none. From its place on a ring of 160 points for each
worker (as in vllm-router), the first worker with fewer than ceil(1.25 x (all running + 1) / workers) running requests.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from math import ceil
from random import Random

from xxhash import xxh3_64_intdigest

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_POINTS = 160
_SLACK = 1.25
_HEAD_BLOCKS = 16
"""With the default ladder, 1,024 tokens."""


@policy("bounded_hash")
class BoundedHash:
    """A ring, made anew when the workers change."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._ring: list[tuple[int, int]] = []

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the first worker on the ring that is below its bound."""
        self._fit(candidates)
        running = [row.load.running_requests for row in candidates]
        capacity = ceil(_SLACK * (sum(running) + 1) / len(running))
        start = bisect(self._ring, (_key(prompt, rng), 0))
        for step in range(len(self._ring)):
            place = self._ring[(start + step) % len(self._ring)][1]
            if running[place] < capacity:
                return candidates[place]
        raise AssertionError("the bounds add up to more than all requests")

    def _fit(self, candidates: Sequence[Candidate]) -> None:
        names = tuple(row.worker.id for row in candidates)
        if names != self._names:
            self._names = names
            self._ring = sorted(
                (xxh3_64_intdigest(f"{name}#{point}".encode()), place)
                for place, name in enumerate(names)
                for point in range(_POINTS)
            )


def _key(prompt: Prompt, rng: Random) -> int:
    if prompt.session_id is not None:
        return xxh3_64_intdigest(prompt.session_id.encode())
    if prompt.fingerprint:
        return prompt.fingerprint[:_HEAD_BLOCKS][-1]
    return rng.getrandbits(64)
