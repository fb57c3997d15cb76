"""round_robin: the worker whose last turn is longest ago.

Use when: a baseline is wanted that spreads requests evenly, whatever their size.
Reads: its own memory of turns. Unit: turns. Options: none.

A counter modulo the number of workers loses its place whenever the list changes (a worker fails, a retry excludes
one, another model has fewer workers): some then get two turns and others none. Remembering the last turn of each
worker is fair through any change; a worker that comes back gets one turn, not all that it missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from weakref import WeakKeyDictionary

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate, Worker


@policy("round_robin", takes_turns=True, reads_matches=False)
class RoundRobin:
    """Remembers turns per instance, thus per role. Workers that are gone are forgotten with their record."""

    def __init__(self) -> None:
        self._turn = 0
        self._last_turn: WeakKeyDictionary[Worker, int] = WeakKeyDictionary()

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick the candidate that waited longest; any of those that never had a turn."""
        last_turn = self._last_turn.get
        chosen = least(candidates, [last_turn(candidate.worker, 0) for candidate in candidates], rng)
        self._turn += 1
        self._last_turn[chosen.worker] = self._turn
        return chosen
