"""Session files with run-length coded block ids: one session a line, replayed as a closed loop.

    {"id", "block_size", "tool_tokens"?, "system_tokens"?, "start"?,
     "reqs": [{"t", "in", "out", "h": [[first, last], ...], "think"?, "agent"?}, ...]}

`h` covers the whole blocks of the prompt; ids are chained. Where `tool_tokens` is given they are local to the session,
but sessions whose tools and system prompt have equal sizes are taken to share these (the whole blocks of a session's
first ids that they fill; not with sub-agents). Elsewhere they are the file's.

A turn begins when
the one before has ended and its think time is over: `think`, else the recorded distance of the two requests, else
exponential with a mean of five seconds (drawn once, so a file is always the same); never more than a minute.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random

import msgspec

from warmroute.replay.readers.lines import TraceError, rows
from warmroute.replay.trace import Session, Trace, Turn, link_sessions

LONGEST_THINK = 60.0
MEAN_THINK = 5.0
SESSION_RATE = 0.2
"""Sessions a second when a file tells no starts: a rate that keeps some fifty agents busy at a time."""
_SESSION_BITS = 32
_COMMON = range(1 << 56, 1 << 57)
"""Ids of the blocks that local sessions share."""
_MAIN = "main"


class Row(msgspec.Struct):
    """One request of a session."""

    tokens: int = msgspec.field(name="in")
    output: int = msgspec.field(name="out")
    runs: list[tuple[int, int]] = msgspec.field(name="h")
    t: float | None = None
    think: float | None = None
    agent: str = _MAIN


class SessionRow(msgspec.Struct):
    """One session."""

    id: str
    block_size: int
    reqs: list[Row]
    tool_tokens: int | None = None
    system_tokens: int | None = None
    start: float | None = None


def read_run_lengths(path: Path, data: bytes) -> Trace:
    """The trace in a file of this form. Raises TraceError."""
    rng = Random(0)
    shared: dict[tuple[int, int], int] = {}
    sessions: list[Session] = []
    for number, row in rows(path, data, SessionRow):
        if not row.reqs:
            continue
        turns: list[Turn] = []
        before: Row | None = None
        for request in row.reqs:
            turn = _turn(row, request, number, shared)
            if turn is None:
                raise TraceError(f"{path}:{number}: h covers more than the {request.tokens} tokens of its prompt")
            turn.think = _think(before, request, rng)
            turns.append(turn)
            before = request
        sessions.append(Session(turns, row.start, row.id))
    if all(session.start is not None for session in sessions):
        sessions.sort(key=lambda session: session.start or 0.0)
    link_sessions(sessions, 1 << 60)
    return Trace(path.name, sessions, SESSION_RATE, _COMMON)


def _turn(row: SessionRow, request: Row, number: int, shared: dict[tuple[int, int], int]) -> Turn | None:
    is_local = row.tool_tokens is not None
    own = number << _SESSION_BITS if is_local else 0
    blocks = array("Q")
    for first, last in request.runs:
        blocks.extend(range(own + first, own + last + 1))
    if len(blocks) * row.block_size > request.tokens:
        return None
    if is_local and request.agent == _MAIN and request.runs and request.runs[0][0] == 1:
        sizes = (row.tool_tokens or 0, row.system_tokens or 0)
        common = min(sum(sizes) // row.block_size, request.runs[0][1])
        base = _COMMON.start + (shared.setdefault(sizes, len(shared)) << _SESSION_BITS)
        blocks[:common] = array("Q", range(base, base + common))
    ends = range(0, (len(blocks) + 1) * row.block_size, row.block_size)
    return Turn(request.tokens, request.output, blocks, ends)


def _think(before: Row | None, request: Row, rng: Random) -> float:
    if before is None:
        return 0.0
    think = request.think
    if think is None:
        think = rng.expovariate(1 / MEAN_THINK) if request.t is None or before.t is None else request.t - before.t
    return min(max(think, 0.0), LONGEST_THINK)
