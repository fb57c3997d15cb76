"""What a replay gave: every request, and the figures made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warmroute.replay.request import Served
from warmroute.simulation.load.records import Spread


@dataclass(frozen=True)
class Result:
    """One trace under one policy. Figures are of served requests; `refused` ones have no place in them."""

    trace: str
    policy: str
    rate: float
    seed: int
    workers: Sequence[str]
    requests: Sequence[Served]
    """In the order in which they ended."""
    evicted_tokens: int
    busy_seconds: Sequence[float]
    cpu_seconds: float
    """Processor time that the replay took; the only figure that differs from run to run."""

    @cached_property
    def served(self) -> Sequence[Served]:
        """The requests that were answered."""
        return [request for request in self.requests if not request.refused]

    @property
    def refused(self) -> int:
        """Requests for which no engine has room."""
        return len(self.requests) - len(self.served)

    @cached_property
    def seconds(self) -> float:
        """From the first arrival to the last end."""
        if not self.served:
            return 0.0
        return max(r.end for r in self.served) - min(r.arrival for r in self.served)

    @cached_property
    def first_token(self) -> Spread | None:
        """Seconds to the first token."""
        return Spread.of([r.first_token - r.arrival for r in self.served])

    @cached_property
    def total(self) -> Spread | None:
        """Seconds to the last token."""
        return Spread.of([r.end - r.arrival for r in self.served])

    @cached_property
    def per_token(self) -> Spread | None:
        """Seconds per answer token after the first."""
        return Spread.of([(r.end - r.first_token) / (r.output_tokens - 1) for r in self.served if r.output_tokens > 1])

    @cached_property
    def prompt_tokens(self) -> int:
        """Of all prompts."""
        return sum(r.prompt_tokens for r in self.served)

    @cached_property
    def output_tokens(self) -> int:
        """Of all answers."""
        return sum(r.output_tokens for r in self.served)

    @property
    def hit_share(self) -> float:
        """Part of the prompt tokens that came out of a cache."""
        return sum(r.cached_tokens for r in self.served) / self.prompt_tokens if self.prompt_tokens else 0.0

    @cached_property
    def uncached_tokens(self) -> Sequence[int]:
        """Prompt tokens that each worker had to compute."""
        sums = [0] * len(self.workers)
        for request in self.served:
            sums[request.worker] += request.prompt_tokens - request.cached_tokens
        return sums

    @property
    def imbalance(self) -> float:
        """Uncached tokens of the worker with most, over the mean of all that compute prompts."""
        sums = [tokens for name, tokens in zip(self.workers, self.uncached_tokens, strict=True) if "decode" not in name]
        return max(sums) * len(sums) / sum(sums) if sum(sums) else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Without the processor time, so that equal runs give equal texts."""
        return {
            "trace": self.trace,
            "policy": self.policy,
            "rate": self.rate,
            "seed": self.seed,
            "requests": len(self.requests),
            "refused": self.refused,
            "seconds": round(self.seconds, 6),
            "first_token_seconds": self.first_token and self.first_token.as_dict(),
            "total_seconds": self.total and self.total.as_dict(),
            "seconds_per_output_token": self.per_token and self.per_token.as_dict(),
            "hit_share": round(self.hit_share, 6),
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "imbalance": round(self.imbalance, 4),
            "uncached_tokens_per_worker": dict(zip(self.workers, self.uncached_tokens, strict=True)),
            "evicted_tokens": self.evicted_tokens,
        }
