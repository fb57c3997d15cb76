"""least_delay: the worker on which this prompt costs the least time, its own and that of the requests behind it.

Use when: time to first token matters; workers may differ in speed; the default for mixed workers. Nothing to tune.
Reads: matched_tokens, running_requests and the worker's pace, learned from first tokens. Unit: seconds. Options: none.

    score = wait + prefill + typical prefill x (queue + crowding) + decoding

- wait: until the worker is done with what it was given before, by its schedule (`scheduling.pace`).
- prefill: of the tokens that the worker lacks, at its learned speed; the typical one is at the fleet's mean speed.
- queue: how many requests wait for their prefill: here, at most as many as on the median worker, and at most 10.
  Every second of prefill that a match would have saved delays so many others. So an idle fleet goes by the first
  token alone, and a busy one holds on to what it has cached: it has no capacity to give away.
- crowding: half the square of the worker's part of the tokens computed lately, over the mean part; at most 2. Where
  more is computed than elsewhere, more is evicted that others will ask for; so cold groups of prompts settle apart.
- decoding: for each request that runs there the time of 125 prompt tokens, for what it and this one cost each other.

A prompt that many ask for is copied to another worker as soon as the wait for it costs more than computing it there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.pace import ATTENTION_TOKENS, NEVER_SETTLED, SECONDS_PER_TOKEN, Pace
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_MOST_QUEUED = 10.0
_MOST_CROWDED = 1.4
_REUSED = 0.7
"""Squared: half of what is evicted would have been asked for again."""
_TOKENS_PER_RUNNING_REQUEST = 125.0
"""A request that is decoding makes every step longer, also those that prefill: what that is worth in prompt tokens."""
_ENOUGH = 4
"""New observations of a worker after which its speed is compared with that of the others."""
_CONTEXT = 0.5 / ATTENTION_TOKENS


@policy("least_delay", paced=True)
class LeastDelay:
    """Remembers nothing itself: what it has learned stands in each worker's `Pace`."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.monotonic

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate with the lowest score."""
        paces = [row.pace for row in candidates]
        count = len(paces)
        unsettled = [pace for pace in paces if pace.observations >= _ENOUGH]
        if unsettled:
            typical = _typical(paces)
            if max([pace.observations for pace in unsettled]) >= NEVER_SETTLED:
                unsettled = paces  # what is known of the first tells more of the others than the assumption does
            for pace in unsettled:
                pace.settle(typical)
        placed = sum([pace.placed for pace in paces])
        if placed > count:  # a cache full for each: half of it is old enough to forget
            placed /= 2
            for pace in paces:
                pace.placed /= 2
        chosen = least(candidates, self._scores(candidates, paces, placed, prompt), rng)
        chosen.pace.placed += (prompt.tokens - chosen.matched_tokens) / max(1, chosen.worker.cache_tokens)
        return chosen

    def scores(self, candidates: Sequence[Candidate], prompt: Prompt) -> Sequence[float]:
        """The score of each candidate, in seconds."""
        paces = [row.pace for row in candidates]
        return self._scores(candidates, paces, sum([pace.placed for pace in paces]), prompt)

    def _scores(
        self, candidates: Sequence[Candidate], paces: Sequence[Pace], placed: float, prompt: Prompt
    ) -> Sequence[float]:
        now = self.clock()
        count = len(paces)
        queued = sorted([pace.waiting for pace in paces])[count // 2]
        delayed = queued if queued < _MOST_QUEUED else _MOST_QUEUED
        typical = sum([pace.seconds_per_token for pace in paces]) / count
        per_request = typical * _TOKENS_PER_RUNNING_REQUEST
        share = _REUSED * count / placed if placed else 0.0
        tokens = prompt.tokens
        # `effective_tokens` of what each lacks, without a call.
        per_token = 1.0 + tokens * _CONTEXT
        return [
            (pace.wait(now) if pace.open else 0.0)
            + per_request * row.load.running_requests
            + (tokens - (matched := row.matched_tokens))
            * (per_token + matched * _CONTEXT)
            * (
                pace.seconds_per_token
                + typical
                * (
                    (delayed if delayed < (waiting := pace.waiting) else waiting)
                    + (crowd * crowd if (crowd := pace.placed * share) < _MOST_CROWDED else _MOST_CROWDED**2)
                )
            )
            for pace, row in zip(paces, candidates, strict=True)
        ]


def _typical(paces: Sequence[Pace]) -> float:
    """The median of the observed seconds per token."""
    observed = sorted([pace.observed for pace in paces if pace.known])
    return observed[len(observed) // 2] if observed else SECONDS_PER_TOKEN
