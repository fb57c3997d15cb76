"""A longer trace out of a short one: its sessions come again, as sessions that nobody has seen before.

A block keeps its id if it is shared: if several families have it, or if the reader says that it belongs to no session
(`Trace.common`). All others get new ids in every round, so a round finds in the caches what a new session would find,
and nothing of its own last time. Ids are chained, so what is shared is the head of a prompt.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import count

from warmroute.replay.trace import Session, Trace, Turn

Family = Callable[[int, Session], Hashable]
"""What a session, given its place in the trace, belongs to. Sessions of one family may be parts of one conversation."""

_STRIDE = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
_FIRST_UNIQUE = 1 << 65


def shared_blocks(trace: Trace, family: Family) -> Collection[int]:
    """The ids of blocks that sessions of more than one family have, beside the trace's own `common` ones."""
    owner: dict[int, Hashable] = {}
    shared: set[int] = set()
    for at, session in enumerate(trace.sessions):
        key = family(at, session)
        own: set[int] = set()
        for turn in session.turns:
            own.update(turn.blocks)
        for block in own:
            if owner.setdefault(block, key) != key:
                shared.add(block)
    return shared


def repeated(trace: Trace, requests: int, shared: Collection[int]) -> Trace:
    """At least so many requests, as whole sessions: cut, or repeated round after round with new ids.

    With recorded starts a round begins one mean distance of sessions after the last start of the round before.
    """
    sessions = list(trace.sessions)
    starts = [session.start for session in sessions if session.start is not None]
    span = (max(starts) - min(starts)) * len(starts) / max(1, len(starts) - 1) if starts else 0.0
    serial = count(_FIRST_UNIQUE)
    missing = requests - trace.requests
    rounds = 0
    while missing > 0:
        rounds += 1
        for session in trace.sessions:
            if missing <= 0:
                break
            sessions.append(_again(session, rounds, span, shared, trace.common, serial))
            missing -= len(session.turns)
    return Trace(trace.name, sessions, trace.session_rate, trace.common).first(requests)


def _again(
    session: Session, rounds: int, span: float, shared: Collection[int], common: range, serial: count[int]
) -> Session:
    offset = rounds * _STRIDE
    turns = [
        Turn(
            turn.prompt_tokens,
            turn.output_tokens,
            _renamed(turn.blocks, offset, shared, common),
            turn.ends,
            turn.think,
        )
        for turn in session.turns
    ]
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        turn.followed_by(following, next(serial))
    return Session(
        turns,
        None if session.start is None else session.start + rounds * span,
        None if session.id is None else f"{session.id} {rounds}",
    )


def _renamed(blocks: Sequence[int], offset: int, shared: Collection[int], common: range) -> Sequence[int]:
    head = 0
    for block in blocks:
        if block not in shared and block not in common:
            break
        head += 1
    fresh = array("Q", [(block + offset) & _MASK for block in blocks[head:]])
    return array("Q", blocks[:head]) + fresh
