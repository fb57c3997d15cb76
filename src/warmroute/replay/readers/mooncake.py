"""Mooncake's traces and RAGPulse's chunks: one request a line, with the time it came.

    {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}

`hash_ids` name blocks of 512 tokens, the last one partial, and are chained by whoever wrote them. RAGPulse's lines add
`block_tokens`, the size of each block, and `session_id`; its ids name passages wherever they stand, so they are chained
here. Requests are replayed at their own times: neither trace tells how long a client waited for an answer.

Formats: https://github.com/kvcache-ai/Mooncake (FAST25-release), https://github.com/flashserve/RAGPulse
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from warmroute.replay.readers.lines import TraceError, rows
from warmroute.replay.trace import Session, Trace, Turn, link_sessions

BLOCK_TOKENS = 512


class Row(msgspec.Struct):
    """One request; `block_tokens` when the blocks differ in size."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    block_tokens: list[int] | None = None
    session_id: str | None = None


def read_mooncake(path: Path, data: bytes) -> Trace:
    """The trace in a file of this form. Raises TraceError."""
    chained: dict[tuple[int, int], int] = {}
    sessions: list[Session] = []
    highest = 0
    for number, row in rows(path, data, Row):
        if row.block_tokens is None:
            blocks, ends = row.hash_ids, _ends(path, number, row)
        else:
            blocks, ends = _chain(row.hash_ids, chained), _sized_ends(path, number, row)
        highest = max(highest, *blocks) if blocks else highest
        turn = Turn(row.input_length, row.output_length, blocks, ends)
        sessions.append(Session([turn], row.timestamp / 1000, row.session_id))
    sessions.sort(key=lambda session: session.start or 0.0)
    link_sessions(sessions, highest + 1)
    return Trace(path.name, sessions)


def _ends(path: Path, number: int, row: Row) -> Sequence[int]:
    count = len(row.hash_ids)
    if -(-row.input_length // BLOCK_TOKENS) != count:
        raise TraceError(f"{path}:{number}: {count} hash_ids do not make {row.input_length} tokens")
    return [*range(0, count * BLOCK_TOKENS, BLOCK_TOKENS), row.input_length]


def _sized_ends(path: Path, number: int, row: Row) -> Sequence[int]:
    sizes = row.block_tokens or []
    if len(sizes) != len(row.hash_ids):
        raise TraceError(f"{path}:{number}: {len(row.hash_ids)} hash_ids, but {len(sizes)} block_tokens")
    ends = [0]
    for size in sizes:
        ends.append(min(ends[-1] + size, row.input_length))
    return ends


def _chain(ids: Sequence[int], chained: dict[tuple[int, int], int]) -> list[int]:
    chain: list[int] = []
    last = -1
    for block in ids:
        last = chained.setdefault((last, block), len(chained))
        chain.append(last)
    return chain
