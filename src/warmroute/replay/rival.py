"""Policies for comparison: what they may see and learn beyond what the router shows a policy.

A policy that needs no more than rows and prompts is simply a policy. A `Rival` is made anew for each run, from a
`View` of the truth, which only a simulation knows:

    def make(view: View) -> Policy:
        def oracle(candidates, prompt, rng):
            return least(candidates, [view.first_token_seconds(row.worker) for row in candidates], rng)
        return oracle

    result = run(trace, Rival("oracle", make), Fleet())

A policy (of a Rival or not) that has a method `first_token(worker, prompt, uncached_tokens, seconds)` is told of every
first token: how many tokens the router took to be uncached and how long it was from the choice to the token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

from warmroute.prompts.prompt import Prompt
from warmroute.replay.engine import Engine
from warmroute.replay.trace import Turn
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.worker import Candidate, Worker


class View:
    """The engines as they are while a request is placed."""

    def __init__(self, engines: Mapping[Worker, Engine]) -> None:
        self.engines = engines
        self.now = 0.0
        """Virtual seconds."""
        self.turn: Turn | None = None
        """What is being placed."""

    def cached_tokens(self, worker: Worker) -> int:
        """Tokens of the prompt that this worker's cache holds now."""
        turn = self.turn
        return 0 if turn is None else self.engines[worker].cache.match(turn.blocks, turn.ends)

    def pending_tokens(self, worker: Worker) -> int:
        """Prompt tokens that this worker has still to compute, given its cache and its queue."""
        return self.engines[worker].pending_tokens

    def first_token_seconds(self, worker: Worker) -> float:
        """When this worker would have the first token, in seconds from now, if nothing else came."""
        engine, turn = self.engines[worker], self.turn
        if turn is None:
            return 0.0
        cached = min(engine.foreseen_tokens(turn), turn.prompt_tokens - 1)
        model = engine.model
        before = max(engine.due - self.now, 0.0) if engine.is_computing else 0.0
        own = model.prefill_seconds(turn.prompt_tokens - cached, cached)
        queue = engine.pending_tokens
        return model.overhead + before + own + (model.prefill_seconds(queue) if queue else 0.0)


@dataclass(frozen=True, slots=True)
class Rival:
    """A policy by the name that reports show, made for each run from a View."""

    name: str
    make: Callable[[View], Policy]


@runtime_checkable
class Learner(Protocol):
    """A policy that learns from first tokens."""

    def first_token(self, worker: Worker, prompt: Prompt, uncached_tokens: int, seconds: float) -> None:
        """A worker has given its first token for a prompt."""
        ...


def with_exact_matches(policy: Policy, name: str) -> Rival:
    """The same policy, shown the tokens that each worker's cache really holds: what an exact index would tell."""

    def make(view: View) -> Policy:
        def choose(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
            for row in candidates:
                row.matched_tokens = view.cached_tokens(row.worker)
            return policy(candidates, prompt, rng)

        return choose

    return Rival(name, make)
