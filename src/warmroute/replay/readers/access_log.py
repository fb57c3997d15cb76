"""Warmroute's own access log, written with `--access-log-prefixes`: last night's traffic, without prompt text.

Each line has its time, its prompt's length and the hashes of the ladder under the log's key (`telemetry.access_log`).
Requests of a session follow each other in a closed loop, with the pauses that were between the end of one and the next;
all others come at their own times. Requests that got no answer are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

import msgspec

from warmroute.prompts.ladder import Ladder
from warmroute.replay.readers.lines import TraceError, rows
from warmroute.replay.trace import Session, Trace, Turn, link_sessions

_DEPTH = 8192
"""More blocks of the ladder than the largest request that a router takes can have (128 MB)."""


class Row(msgspec.Struct):
    """What a replay needs of a line."""

    time: float
    status: int
    duration: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    session_id: str | None = None
    block_tokens: int | None = None
    prefix: list[str] | None = None


def read_access_log(path: Path, data: bytes) -> Trace:
    """The trace in such a log. Raises TraceError, also when it was written without prefixes."""
    ends: dict[int | None, Sequence[int]] = {}
    talks: dict[str | int, list[tuple[Row, Turn]]] = {}
    alone = count()
    for number, row in rows(path, data, Row, may_be_cut=True):
        if row.status >= 400 or row.prompt_tokens is None:
            continue
        if row.prefix is None:
            raise TraceError(f"{path}:{number}: no prefix in it: the router has to run with --access-log-prefixes")
        try:
            blocks = [int(digits, 16) for digits in row.prefix]
        except ValueError:
            raise TraceError(f"{path}:{number}: prefix must be hexadecimal hashes") from None
        if row.block_tokens not in ends:
            ends[row.block_tokens] = _ends(row.block_tokens)
        turn = Turn(row.prompt_tokens, row.output_tokens or 1, blocks, ends[row.block_tokens])
        talks.setdefault(next(alone) if row.session_id is None else row.session_id, []).append((row, turn))
    sessions = [_session(key, talk) for key, talk in talks.items()]
    sessions.sort(key=lambda session: session.start or 0.0)
    link_sessions(sessions, 1 << 64)
    return Trace(path.name, sessions)


def _session(key: str | int, talk: list[tuple[Row, Turn]]) -> Session:
    talk.sort(key=lambda pair: pair[0].time)
    for (before, _), (row, turn) in pairwise(talk):
        turn.think = max(0.0, row.time - before.time - before.duration)
    return Session([turn for _, turn in talk], talk[0][0].time, key if isinstance(key, str) else None)


def _ends(block_tokens: int | None) -> Sequence[int]:
    if block_tokens is not None:
        return range(0, sys.maxsize, block_tokens)
    ladder = Ladder.default()
    return [ladder.tokens_at(depth) for depth in range(_DEPTH + 1)]
