"""What is replayed: five public traces, each cut into a half for tuning and a half for the grid.

A session is in one half with all its turns. Requests of a trace without sessions go together when their prompts have
the same second block (the first one is the same in all of Mooncake's conversations).

A half is then cut or repeated (`replay.repeat`) to as many requests as it takes to saturate the fleet: with fewer, all
of a short trace has come and gone before a queue can form. Two traces of short prompts meet slower engines, since it
would take a hundred thousand requests to saturate fast ones.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from functools import lru_cache
from pathlib import Path
from typing import Literal

from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.readers.read import read_trace
from warmroute.replay.repeat import repeated, shared_blocks
from warmroute.replay.trace import Session, Trace

Half = Literal["tuning", "grid"]
FILES = {
    "conversation": "mooncake/conversation_trace.jsonl",
    "synthetic": "mooncake/synthetic_trace.jsonl",
    "claude-code": "kv-cache-tester/claude_code_le128k.rle.jsonl",
    "ragpulse": "ragpulse/ragpulse.chunks.jsonl",
    "tau-bench": "tau-bench/gpt4o_airline.rle.jsonl",
}
"""Names in the report, and where the files lie in the folder of traces."""

REQUESTS = {
    "conversation": {8: 3000, 32: 12000},
    "synthetic": {8: 3000, 32: 12000},
    "claude-code": {8: 14000, 32: 28000},
    "ragpulse": {8: 3000, 32: 12000},
    "tau-bench": {8: 12000, 32: 48000},
}
"""By the size of the fleet. In a closed loop it takes many sessions to fill a fleet while the first ones still run."""

SLOWER = {"ragpulse": 4.0, "tau-bench": 4.0}
"""How many times slower the engines are than `EngineModel` says."""
CACHE_TOKENS = {"tau-bench": 30_000}
"""KV cache of each engine where it is smaller than usual."""

_MIX = 0x9E3779B97F4A7C15
_SHIFT = 20


def fleet(name: str, workers: int) -> Fleet:
    """The engines on which a trace is replayed."""
    model = EngineModel().faster(1.0 / SLOWER.get(name, 1.0))
    return Fleet(workers=workers, model=model, cache_tokens=CACHE_TOKENS.get(name, 500_000))


@lru_cache(maxsize=1)
def workload(folder: Path, name: str, half: Half, requests: int | None) -> Trace:
    """One half of a trace, cut or repeated to so many requests (None: as it is). Raises OSError, TraceError."""
    trace, shared = _whole(folder, name)
    wanted = 0 if half == "tuning" else 1
    sessions = [
        session for at, session in enumerate(trace.sessions) if (_group(at, session) * _MIX >> _SHIFT) % 2 == wanted
    ]
    cut = Trace(name, sessions, trace.session_rate, trace.common)
    return cut if requests is None else repeated(cut, requests, shared)


@lru_cache(maxsize=1)
def _whole(folder: Path, name: str) -> tuple[Trace, Collection[int]]:
    trace = read_trace(folder / FILES[name])
    return trace, shared_blocks(trace, _family)


def _family(at: int, session: Session) -> Hashable:
    return _group(at, session) if session.id is None else session.id


def _group(at: int, session: Session) -> int:
    if len(session.turns) > 1:
        return at
    if session.id is not None:
        return sum(session.id.encode())
    blocks = session.turns[0].blocks
    return blocks[min(1, len(blocks) - 1)] if blocks else at
