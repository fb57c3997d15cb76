"""What a load consists of: sessions, whose turns are requests that are sent in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Session(Protocol):
    """One conversation. `needs_answers` says whether a turn is made from the answers to those before it."""

    needs_answers: bool

    def __len__(self) -> int:
        """Number of turns."""

    def body(self, turn: int, answers: Sequence[str]) -> dict[str, Any]:
        """The OpenAI body of a turn. `answers` holds the texts of all turns before it, if the session needs them."""


@dataclass(frozen=True, slots=True)
class RecordedBody:
    """A session of one turn: a body that was recorded whole."""

    recorded: Mapping[str, Any]
    needs_answers = False

    def __len__(self) -> int:
        return 1

    def body(self, turn: int, answers: Sequence[str]) -> dict[str, Any]:
        """A copy of the recorded body."""
        return dict(self.recorded)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the load generator sets in every body.

    `model` replaces, `default_model` is for bodies without one; `stream` None leaves a body as it is.
    """

    model: str | None = None
    default_model: str | None = None
    stream: bool | None = None

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Change `body` in place and return it. Streams are also asked for their usage."""
        model = self.model or body.get("model") or self.default_model
        if model:
            body["model"] = model
        if self.stream is not None:
            body["stream"] = self.stream
        if body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        else:
            body.pop("stream_options", None)
        return body
