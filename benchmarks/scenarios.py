"""What is measured, and the share of the peer's cost that is aimed at."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.answers import ANSWER, STREAM_BYTES
from benchmarks.prompts import Prompts

KIB = 1024


@dataclass(frozen=True)
class Scenario:
    """One kind of load. `target` is the highest ratio to the peer's CPU time that counts as met."""

    name: str
    prompt_bytes: int
    connections: int
    target: float
    stream: bool = False
    pairs: bool = False
    """Whether prefill and decode workers serve it."""
    plain: str = ""
    """For a stream: the name of the scenario with the same request unstreamed. The cost per chunk is what a streamed
    request costs more than that one, by the number of chunks."""

    def prompts(self) -> Prompts:
        """The requests to send; all routers draw from one supply."""
        return Prompts(self.prompt_bytes, stream=self.stream)

    @property
    def answer_bytes(self) -> int:
        """Length of every right answer."""
        return STREAM_BYTES if self.stream else len(ANSWER)


REQUESTS = (
    Scenario("1 KB", KIB, 32, 0.5),
    Scenario("16 KB", 16 * KIB, 32, 0.6),
    Scenario("64 KB", 64 * KIB, 32, 0.5),
    Scenario("400 KB", 400 * KIB, 32, 0.5),
)
STREAM = Scenario("stream", KIB, 64, 0.8, stream=True, plain="1 KB")

PAIR_REQUESTS = (
    Scenario("PD 1 KB", KIB, 32, 0.6, pairs=True),
    Scenario("PD 16 KB", 16 * KIB, 32, 0.6, pairs=True),
    Scenario("PD 64 KB", 64 * KIB, 32, 0.6, pairs=True),
)
PAIR_STREAM = Scenario("PD stream", KIB, 64, 0.8, stream=True, pairs=True, plain="PD 1 KB")
PAIR_TARGET = 2.2
"""The most that a request to a pair may cost as a multiple of one to a mixed worker."""

TELEMETRY_SCENARIOS = (
    Scenario("telemetry, 1 KB", KIB, 32, 1.08),
    Scenario("telemetry, 16 KB", 16 * KIB, 32, 1.08),
)
"""Ours with all that tells of requests against ours without."""

MIXED_SCENARIOS = (*REQUESTS, STREAM)
PAIR_SCENARIOS = (*PAIR_REQUESTS, PAIR_STREAM)

MEMORY_PROMPTS = 2000
MEMORY_PROMPT_BYTES = 32 * KIB
MEMORY_TARGET_BYTES = 10_000_000
MEMORY_CACHE_TOKENS = 20_000_000
"""The workers claim room for all prompts of the memory run, so that nothing is forgotten while it lasts."""

CACHE_TOKENS = 500_000
"""KV cache of a mock worker in the other runs, as of a GPU with a mid-sized model: the router has to evict as well."""
