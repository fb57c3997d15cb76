"""kv_room: the fewest running requests, among the workers whose KV cache has room for one more.

Use when: workers decode, and prompts are long enough for their KV caches to fill up before their batches do.
Reads: running_requests, active_tokens, and how many tokens each worker's cache holds. Unit: requests. Options: none.

    room: active tokens + this prompt <= 0.9 x the tokens that the cache holds

A step of a decode batch takes longer with each request in it, so the smallest batch gives the next token soonest. But a
request for which the cache has no room waits until others have ended. The tenth that is kept is for answers, whose
length nobody knows. If there is room nowhere, the cache that would be fullest by the smallest part is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_USED = 0.9
_NO_ROOM = 1e9
"""More than any number of requests."""


@policy("kv_room", reads_matches=False)
@dataclass(frozen=True, slots=True)
class KvRoom:
    """Smallest batch with room."""

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate with the lowest score."""
        return least(candidates, self.scores(candidates, prompt), rng)

    def scores(self, candidates: Sequence[Candidate], prompt: Prompt) -> Sequence[float]:
        """Running requests or, above any number of them, how full the cache would be."""
        tokens = prompt.tokens
        return [
            row.load.running_requests
            if (held := row.load.active_tokens + tokens) <= _USED * row.worker.cache_tokens
            else _NO_ROOM + held / max(1, row.worker.cache_tokens)
            for row in candidates
        ]
