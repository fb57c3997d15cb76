"""A synthetic multi-turn workload: tenants with a system prompt each, and conversations that grow turn by turn."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

_WORDS = [
    "about",
    "account",
    "before",
    "booking",
    "change",
    "check",
    "company",
    "customer",
    "date",
    "delivery",
    "email",
]
_WORDS += ["every", "flight", "hotel", "invoice", "later", "letter", "message", "minute", "money", "month", "number"]
_WORDS += [
    "office",
    "order",
    "page",
    "price",
    "question",
    "report",
    "room",
    "service",
    "ticket",
    "travel",
    "week",
    "year",
]

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class SyntheticLoad:
    """Shape of the workload. Lengths are in tokens of four characters; user turns vary evenly by half around theirs."""

    sessions: int = 64
    turns: int = 6
    tenants: int = 8
    system_tokens: int = 1500
    user_tokens: int = 150
    answer_tokens: int = 64
    seed: int = 0

    def make(self) -> list[SyntheticSession]:
        """The sessions, the tenants mixed at random. The same shape and seed give the same texts."""
        rng = random.Random(self.seed)
        systems = [_text(rng, self.system_tokens) for _ in range(self.tenants)]
        return [
            SyntheticSession(
                system=rng.choice(systems),
                questions=[
                    _text(rng, max(1, round(self.user_tokens * rng.uniform(0.5, 1.5)))) for _ in range(self.turns)
                ],
                answer_tokens=self.answer_tokens,
            )
            for _ in range(self.sessions)
        ]


def parse_load(text: str) -> SyntheticLoad:
    """The load that `sessions=64,turns=6` describes; what is not named keeps its default. Raises ValueError."""
    known = {field.name: 0 if field.name == "seed" else 1 for field in fields(SyntheticLoad)}
    values: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
        if not (number.isascii() and number.isdigit() and int(number) >= known[name]):
            raise ValueError(f"{name} must be a whole number of at least {known[name]}, not {number!r}")
        values[name] = int(number)
    return SyntheticLoad(**values)


@dataclass(frozen=True, slots=True)
class SyntheticSession:
    """One conversation. Each turn repeats the system prompt, all questions so far, and the answers really received."""

    system: str
    questions: Sequence[str]
    answer_tokens: int
    needs_answers = True

    def __len__(self) -> int:
        return len(self.questions)

    def body(self, turn: int, answers: Sequence[str]) -> dict[str, Any]:
        """The streamed chat request of a turn."""
        return {
            "messages": list(self._messages(turn, answers)),
            "max_tokens": self.answer_tokens,
            "ignore_eos": True,
            "stream": True,
        }

    def _messages(self, turn: int, answers: Sequence[str]) -> Iterator[dict[str, str]]:
        yield {"role": "system", "content": self.system}
        for question, answer in zip(self.questions[:turn], answers[:turn], strict=True):
            yield {"role": "user", "content": question}
            yield {"role": "assistant", "content": answer}
        yield {"role": "user", "content": self.questions[turn]}


def _text(rng: random.Random, tokens: int) -> str:
    length = tokens * CHARS_PER_TOKEN
    words: list[str] = []
    while length > 0:
        words.append(rng.choice(_WORDS))
        length -= len(words[-1]) + 1
    return " ".join(words)
