"""Prompts whose text shares exactly what the blocks of a trace share.

A block becomes a word of its own, repeated: two blocks differ from their first characters on, and equal ones are equal
wherever they stand. A token is four characters, as in the simulated engines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from warmroute.replay.trace import Session, Turn
from warmroute.simulation.load.synthetic import CHARS_PER_TOKEN

MODEL = "simulated"
MESSAGE_CHARS = 8 * 1024
"""Longer texts are cut into messages of this length: nobody sends 400 KB as one."""

_MIX = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def block_text(block: int, tokens: int) -> str:
    """The text of a block, or of its first `tokens`. Multiplying by an odd number keeps numbers below 2**64 apart."""
    word = f"{block * _MIX & _MASK:015x} "
    length = tokens * CHARS_PER_TOKEN
    return (word * (length // len(word) + 1))[:length]


def prompt_text(turn: Turn, own: int) -> str:
    """The text of a prompt; tokens that are in no block are a block with the number `own`."""
    ends = turn.ends
    parts = [block_text(block, ends[at + 1] - ends[at]) for at, block in enumerate(turn.blocks)]
    rest = turn.prompt_tokens - ends[len(turn.blocks)]
    return "".join([*parts, block_text(own, rest)] if rest > 0 else parts)


def messages(text: str) -> list[dict[str, str]]:
    """The text as a conversation: cut at fixed lengths, so that equal beginnings stay equal."""
    roles = itertools.chain(["system"], itertools.cycle(["user", "assistant"]))
    cuts = range(0, len(text), MESSAGE_CHARS)
    return [{"role": role, "content": text[cut : cut + MESSAGE_CHARS]} for role, cut in zip(roles, cuts, strict=False)]


class TextSession:
    """A session of a trace as the load generator wants it: streamed chats, made when they are sent."""

    needs_answers = False

    def __init__(self, session: Session, number: int) -> None:
        self._turns: Sequence[Turn] = session.turns
        self._number = number

    def __len__(self) -> int:
        return len(self._turns)

    def think(self, turn: int) -> float:
        """Seconds between the end of the turn before and this one."""
        return self._turns[turn].think

    def body(self, turn: int, answers: Sequence[str]) -> dict[str, Any]:
        """The chat request of a turn."""
        recorded = self._turns[turn]
        own = 1 << 63 | self._number << 20 | turn
        return {
            "model": MODEL,
            "messages": messages(prompt_text(recorded, own)),
            "max_tokens": recorded.output_tokens,
            "stream": True,
        }
