"""preble: exploit a long match, explore by cost otherwise (Preble, arXiv 2407.00023, E2; AIBrix prefix-cache-preble).

1. More of the prompt is matched than not: of the workers with the longest match the one with the least load.
2. Otherwise the least of load + eviction cost + prefill cost of what is not matched.

The load of a worker is what it was given lately: the uncached tokens of each request and its decode, taken as a
constant number of tokens. The paper's window of 3 minutes is one of `window` requests here, since a policy knows no
clock. What has to be evicted costs as much to bring back as this worker's recent share of cached tokens says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_DECODE_TOKENS = 300.0


@policy("preble")
class Preble:
    """Exploit and explore over a sliding window of placements."""

    def __init__(self, window: int = 1000) -> None:
        self._window = window
        self._recent: deque[tuple[str, int, int]] = deque()
        self._uncached: dict[str, float] = {}
        self._matched: dict[str, float] = {}
        self._placed: dict[str, int] = {}

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        """Pick by match or by cost, and remember what was placed."""
        longest = max(row.matched_tokens for row in candidates)
        if 2 * longest > prompt.tokens:
            rows = [row for row in candidates if row.matched_tokens == longest]
            chosen = least(rows, [self._load(row) for row in rows], rng)
        else:
            chosen = least(candidates, [self._cost(row, prompt) for row in candidates], rng)
        self._remember(chosen.worker.id, prompt.tokens - chosen.matched_tokens, chosen.matched_tokens)
        return chosen

    def _load(self, row: Candidate) -> float:
        return self._uncached.get(row.worker.id, 0.0)

    def _cost(self, row: Candidate, prompt: Prompt) -> float:
        name, uncached = row.worker.id, prompt.tokens - row.matched_tokens
        evicted = min(uncached, max(0, self._placed.get(name, 0) + uncached - row.worker.cache_tokens))
        matched, load = self._matched.get(name, 0.0), self._load(row)
        reused = matched / (matched + load) if matched else 0.0
        return load + evicted * reused + uncached

    def _remember(self, name: str, uncached: int, matched: int) -> None:
        self._placed[name] = self._placed.get(name, 0) + uncached
        self._recent.append((name, uncached, matched))
        self._add(name, uncached + _DECODE_TOKENS, matched)
        if len(self._recent) > self._window:
            name, uncached, matched = self._recent.popleft()
            self._add(name, -uncached - _DECODE_TOKENS, -matched)

    def _add(self, name: str, uncached: float, matched: float) -> None:
        self._uncached[name] = self._uncached.get(name, 0.0) + uncached
        self._matched[name] = self._matched.get(name, 0.0) + matched
