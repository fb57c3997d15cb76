"""least_delay: the worker on which this prompt costs the least time, its own and that of the requests behind it.

Use when: time to first token matters; workers may differ in speed. The default for mixed and prefill workers.
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
from math import inf
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.pace import ATTENTION_TOKENS, NEVER_SETTLED, SECONDS_PER_TOKEN, Pace, effective_tokens
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_MOST_QUEUED = 10.0
_MOST_CROWDED = 1.4
_MOST_CROWDED_SQUARED = _MOST_CROWDED**2
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
        paces, queues, unsettled = [], [], []
        placed = speeds = 0.0
        for row in candidates:
            pace = row.pace
            paces.append(pace)
            queues.append(pace.waiting)
            placed += pace.placed
            speeds += pace.seconds_per_token
            if pace.observations >= _ENOUGH:
                unsettled.append(pace)
        if unsettled:
            _settle(paces, unsettled)
            speeds = sum([pace.seconds_per_token for pace in paces])
        count = len(paces)
        if placed > count:  # a cache full for each: half of it is old enough to forget
            placed /= 2
            for pace in paces:
                pace.placed /= 2
        return self._least(candidates, prompt, rng, speeds / count, _delayed(queues), _share(count, placed))

    def scores(self, candidates: Sequence[Candidate], prompt: Prompt) -> Sequence[float]:
        """The score of each candidate, in seconds: the formula, plainly. `__call__` finds its least."""
        now = self.clock()
        paces = [row.pace for row in candidates]
        typical = sum([pace.seconds_per_token for pace in paces]) / len(paces)
        delayed = _delayed([pace.waiting for pace in paces])
        share = _share(len(paces), sum([pace.placed for pace in paces]))
        return [
            (pace.wait(now) if pace.open else 0.0)
            + typical * _TOKENS_PER_RUNNING_REQUEST * row.load.running_requests
            + effective_tokens(prompt.tokens - row.matched_tokens, row.matched_tokens)
            * (
                pace.seconds_per_token
                + typical * (min(delayed, pace.waiting) + min(pace.placed * share, _MOST_CROWDED) ** 2)
            )
            for pace, row in zip(paces, candidates, strict=True)
        ]

    def _least(
        self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random, typical: float, delayed: float, share: float
    ) -> Candidate:
        """The candidate with the least score. No part of a score is negative, so whoever is beaten by some is out."""
        now = self.clock()
        tokens = prompt.tokens
        # `effective_tokens` of what each lacks, without a call.
        per_token = 1.0 + tokens * _CONTEXT
        all_tokens = tokens * per_token
        per_request = typical * _TOKENS_PER_RUNNING_REQUEST
        lowest = inf
        ties: list[Candidate] = []
        for row in candidates:
            pace = row.pace
            matched = row.matched_tokens
            work = (tokens - matched) * (per_token + matched * _CONTEXT) if matched else all_tokens
            speed = pace.seconds_per_token
            running = per_request * row.load.running_requests
            due = pace.due - now if pace.open else 0.0
            if due + running + work * speed > lowest:
                continue
            crowd = pace.placed * share
            behind = crowd * crowd if crowd < _MOST_CROWDED else _MOST_CROWDED_SQUARED
            if delayed:
                behind += delayed if delayed < (waiting := pace.waiting) else waiting
            prefill = work * (speed + typical * behind)
            score = due + running + prefill
            if score <= lowest and pace.open:
                score = pace.wait(now) + running + prefill
            if score < lowest:
                lowest = score
                ties = [row]
            elif score == lowest:
                ties.append(row)
        return ties[0] if len(ties) == 1 else rng.choice(ties)


def _settle(paces: Sequence[Pace], unsettled: Sequence[Pace]) -> None:
    """Compare the speeds that were newly observed with that of the fleet."""
    typical = _typical(paces)
    if max([pace.observations for pace in unsettled]) >= NEVER_SETTLED:
        unsettled = paces  # what is known of the first tells more of the others than the assumption does
    for pace in unsettled:
        pace.settle(typical)


def _delayed(queues: list[int]) -> float:
    """The most requests that are taken to be delayed by a second of prefill."""
    queues.sort()
    return min(queues[len(queues) // 2], _MOST_QUEUED)


def _share(count: int, placed: float) -> float:
    """What a worker's part of all that was `placed` is multiplied with to be compared with the mean part."""
    return _REUSED * count / placed if placed else 0.0


def _typical(paces: Sequence[Pace]) -> float:
    """The median of the observed seconds per token."""
    observed = sorted([pace.observed for pace in paces if pace.known])
    return observed[len(observed) // 2] if observed else SECONDS_PER_TOKEN
