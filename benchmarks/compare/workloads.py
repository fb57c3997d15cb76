"""What is played: two recorded traces, where they are at hand, and two workloads that are made here.

Times are those of the engines; the harness makes all of it go faster. Recorded sessions are cut, not thinned: the first
ones of the file, and of each its first turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from warmroute.replay.readers.read import read_trace
from warmroute.replay.trace import Session, Trace, Turn

CONVERSATION = "mooncake/conversation_trace.jsonl"
CLAUDE_CODE = "kv-cache-tester/claude_code_le128k.rle.jsonl"
LONGEST_SESSION = 30
"""Turns: some sessions have hundreds, and a few of them would run alone for most of the time."""
BUSY_RATE = 1.5
"""Of conversation: 0.9 of saturation (1.67), the rate from which on least pending tokens have a p99 above 30 s."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Traffic and the engines for it. `target` is what our mean TTFT may be of the best peer's at most."""

    name: str
    target: float
    cache_tokens: int
    load: Callable[[], Trace]
    rate: float = 1.0
    """How much faster than recorded sessions begin."""


def workloads(traces: Path | None, requests: int) -> list[Workload]:
    """All that can be played with that folder of traces (None: with none), with about so many requests each."""
    made = [
        Workload("hot prefixes", 1.0, 300_000, lambda: hot_prefixes(requests)),
        Workload("cold groups", 1.0, 300_000, lambda: cold_groups(requests)),
    ]
    if traces is None:
        return made

    def conversation() -> Trace:
        return read_trace(traces / CONVERSATION).first(requests)

    return [
        Workload("conversation", 0.40, 300_000, conversation),
        Workload("busy conversation", 0.40, 300_000, conversation, BUSY_RATE),
        Workload("claude code", 0.65, 1_000_000, lambda: short_sessions(read_trace(traces / CLAUDE_CODE), requests)),
        *made,
    ]


def short_sessions(trace: Trace, requests: int) -> Trace:
    """The first turns of the first sessions."""
    cut = [Session(session.turns[:LONGEST_SESSION], session.start, session.id) for session in trace.sessions]
    return Trace(trace.name, cut, trace.session_rate).first(requests)


def hot_prefixes(requests: int) -> Trace:
    """Eight system prompts of 8,000 tokens, one of them half of the traffic, and questions of about 3,000.

    One engine is fast enough for a fifth of the questions: whoever sends a prefix where it was must know when to stop.
    """
    rng = Random("hot prefixes")
    weights = [2.0 ** -(group + 1) for group in range(8)]
    groups = rng.choices(range(len(weights)), weights, k=requests)
    return _grouped("hot prefixes", groups, rng, system=8000, question=3000, output=150, rate=8.0)


def cold_groups(requests: int) -> Trace:
    """Groups of eight prompts, far from each other in time, that share 6,000 tokens: spread they fit in the caches."""
    rng = Random("cold groups")
    groups = [at // 8 for at in range(requests)]
    rng.shuffle(groups)
    return _grouped("cold groups", groups, rng, system=6000, question=600, output=200, rate=8.0)


def _grouped(
    name: str, groups: list[int], rng: Random, *, system: int, question: int, output: int, rate: float
) -> Trace:
    """Single prompts at random times: the block of a group, and one of their own."""
    sessions = []
    now = 0.0
    for number, group in enumerate(groups):
        total = system + round(question * rng.uniform(0.5, 1.5))
        turn = Turn(total, round(output * rng.uniform(0.5, 1.5)), [group, 1 << 40 | number], [0, system, total])
        sessions.append(Session([turn], now))
        now += rng.expovariate(rate)
    return Trace(name, sessions)
