"""What is replayed: five public traces, each cut into a half for tuning and a half for the grid.

A session is in one half with all its turns. Requests of a trace without sessions go together when their prompts have
the same second block (the first one is the same in all of Mooncake's conversations).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from warmroute.replay.readers.read import read_trace
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

_MIX = 0x9E3779B97F4A7C15
_SHIFT = 20


@cache
def workload(folder: Path, name: str, half: Half, limit: int | None) -> Trace:
    """One half of a trace, up to the session that brings request `limit`. Raises OSError, TraceError."""
    trace = read_trace(folder / FILES[name])
    wanted = 0 if half == "tuning" else 1
    sessions = [
        session for at, session in enumerate(trace.sessions) if (_group(at, session) * _MIX >> _SHIFT) % 2 == wanted
    ]
    cut = Trace(name, sessions, trace.session_rate)
    return cut if limit is None else cut.first(limit)


def _group(at: int, session: Session) -> int:
    if len(session.turns) > 1:
        return at
    if session.id is not None:
        return sum(session.id.encode())
    blocks = session.turns[0].blocks
    return blocks[min(1, len(blocks) - 1)] if blocks else at
