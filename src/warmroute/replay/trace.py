"""What is replayed: sessions of turns, each a prompt made of blocks, and an answer of some length.

Block ids are chained (an id stands for the whole prefix up to its block) and unique in a trace. `ends[d]` is how many
tokens the first `d` blocks cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.prompts.prompt import Prompt

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
_BUNCHED = 2.0
"""More requests than this with one time stamp, in the mean, and the stamps are ticks of a coarse clock."""


class Turn:
    """One request. `think` is the seconds between the end of the turn before and this one.

    When it is answered, its engine holds `answered[:answered_depth]`, whose sizes are `answered_ends`: the prompt, and
    as much of the answer as is known to come back in the next turn, else the answer as a block that nobody asks for.
    """

    __slots__ = (
        "answered",
        "answered_depth",
        "answered_ends",
        "blocks",
        "ends",
        "output_tokens",
        "prompt",
        "prompt_tokens",
        "think",
    )

    def __init__(
        self, prompt_tokens: int, output_tokens: int, blocks: Sequence[int], ends: Sequence[int], think: float = 0.0
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = max(1, output_tokens)
        self.blocks = blocks
        self.ends = ends
        self.think = think
        self.prompt = Prompt()
        self.answered = blocks
        self.answered_ends = ends
        self.answered_depth = len(blocks)

    def followed_by(self, following: Turn | None, unique: int) -> None:
        """Say what is cached after the answer: what the following turn repeats, else a block with the id `unique`."""
        depth = len(self.blocks)
        written = self.prompt_tokens + self.output_tokens - 1
        if following is not None and following.prompt_tokens > written:
            repeats = following.blocks
            if depth <= len(repeats) and (not depth or repeats[depth - 1] == self.blocks[depth - 1]):
                while depth < len(repeats) and following.ends[depth + 1] <= written:
                    depth += 1
                self.answered, self.answered_ends, self.answered_depth = repeats, following.ends, depth
                return
        if self.output_tokens > 1:
            covered = self.ends[depth]
            self.answered = [*self.blocks, unique]
            self.answered_ends = [*self.ends[: depth + 1], covered + self.output_tokens - 1]
            self.answered_depth = depth + 1


@dataclass(slots=True)
class Session:
    """Turns that follow each other. `start` is in seconds; None when the trace does not tell."""

    turns: list[Turn]
    start: float | None = None
    id: str | None = None


@dataclass(slots=True)
class Trace:
    """A recorded workload. Without starts, sessions begin at random, `session_rate` a second in the mean.

    `common` are the ids of blocks that belong to no session, however few sessions have them: tools, system prompts.
    """

    name: str
    sessions: list[Session]
    session_rate: float = 1.0
    common: range = range(0)
    _ladder: Ladder | None = field(default=None, repr=False)

    @property
    def requests(self) -> int:
        """How many requests it has."""
        return sum(len(session.turns) for session in self.sessions)

    def first(self, requests: int) -> Trace:
        """The sessions up to the one that brings the given number of requests."""
        kept: list[Session] = []
        for session in self.sessions:
            if requests <= 0:
                break
            kept.append(session)
            requests -= len(session.turns)
        return Trace(self.name, kept, self.session_rate, self.common)

    def starts(self, rate: float, rng: Random) -> list[float]:
        """When each session begins, in seconds from the first, `rate` times as fast as recorded.

        Stamps of a coarse clock are spread evenly at random up to the next tick.
        """
        if any(session.start is None for session in self.sessions):
            now, starts = 0.0, []
            for _ in self.sessions:
                starts.append(now)
                now += rng.expovariate(self.session_rate * rate)
            return starts
        stamps = [session.start or 0.0 for session in self.sessions]
        ticks = sorted(set(stamps))
        if len(stamps) / len(ticks) > _BUNCHED:
            widths = {tick: later - tick for tick, later in pairwise(ticks)}
            widths[ticks[-1]] = 0.0
            stamps = [stamp + rng.random() * widths[stamp] for stamp in stamps]
        origin = min(stamps)
        return [(stamp - origin) / rate for stamp in stamps]

    def prepare(self, ladder: Ladder) -> None:
        """Give every turn the prompt that the scheduler sees; again with the same ladder, nothing happens."""
        if self._ladder == ladder:
            return
        for session in self.sessions:
            for turn in session.turns:
                turn.prompt = Prompt(
                    turn.prompt_tokens,
                    _fingerprint(turn.blocks, turn.ends, ladder),
                    None,
                    True,
                    turn.output_tokens,
                    None,
                    session.id,
                )
        self._ladder = ladder


def _fingerprint(blocks: Sequence[int], ends: Sequence[int], ladder: Ladder) -> list[int]:
    """One number per block of the ladder, made of the trace block in which it ends."""
    covered = ends[len(blocks)]
    if isinstance(ends, range):
        size = ends.step
        return [
            (blocks[(end // BYTES_PER_TOKEN - 1) // size] * _MIX + end) & _MASK
            for end in ladder.block_ends(covered * BYTES_PER_TOKEN)
        ]
    hashes: list[int] = []
    at = 0
    for end in ladder.block_ends(covered * BYTES_PER_TOKEN):
        while ends[at + 1] * BYTES_PER_TOKEN < end:
            at += 1
        hashes.append((blocks[at] * _MIX + end) & _MASK)
    return hashes


def link_sessions(sessions: list[Session], first_unique: int) -> None:
    """Tell each turn which one follows it. Ids from `first_unique` on must not occur in the trace."""
    for session in sessions:
        for turn, following in zip(session.turns, [*session.turns[1:], None], strict=True):
            turn.followed_by(following, first_unique)
            first_unique += 1
