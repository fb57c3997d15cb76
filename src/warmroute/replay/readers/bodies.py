"""Recorded text, as for `warmroute bench`: JSON lines with one OpenAI body each, or conversations of tau-bench.

Prompts are cut into blocks of 16 tokens of four bytes, as the router reads them. An answer is as long as its recorded
turn, or as the body's cap says, else 256 tokens. Nothing tells times: bodies and conversations begin at random, one a
second in the mean, and the turns of a conversation have pauses that are exponential with a mean of five seconds (drawn
once, so a file is always the same).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec

from warmroute.prompts.body import BadRequest, Kind, read_request
from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.replay.readers.lines import TraceError
from warmroute.replay.trace import Session, Trace, Turn, link_sessions
from warmroute.simulation.load.readers import read_sessions
from warmroute.simulation.load.workload import Session as RecordedSession

_BLOCK_TOKENS = 16
_ANSWER_TOKENS = 256
_MEAN_THINK = 5.0


def read_bodies(path: Path, data: bytes) -> Trace:
    """The trace in a file of one of these forms. Raises TraceError, or WorkloadError for what is none of them."""
    rng = Random(0)
    ladder = Ladder.fixed(_BLOCK_TOKENS * BYTES_PER_TOKEN)
    sessions = []
    for number, recorded in enumerate(read_sessions(path), start=1):
        try:
            turns = [_turn(recorded, at, ladder) for at in range(len(recorded))]
        except BadRequest as error:
            raise TraceError(f"{path}: request {number}: {error}") from None
        for turn in turns[1:]:
            turn.think = rng.expovariate(1 / _MEAN_THINK)
        sessions.append(Session(turns))
    link_sessions(sessions, 1 << 64)
    return Trace(path.name, sessions)


def _turn(recorded: RecordedSession, at: int, ladder: Ladder) -> Turn:
    body = recorded.body(at, [])
    kind: Kind = "chat" if "messages" in body else "completions"
    prompt = read_request(msgspec.json.encode(body), kind, ladder)
    ends = range(0, (len(prompt.fingerprint) + 1) * _BLOCK_TOKENS, _BLOCK_TOKENS)
    return Turn(max(1, prompt.tokens), prompt.max_tokens or _ANSWER_TOKENS, prompt.fingerprint, ends)
