"""What a replayed engine does for one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmroute.replay.cache import Hold
from warmroute.replay.trace import Turn

if TYPE_CHECKING:
    from warmroute.replay.request import Request


class Job:
    """What an engine does for one request: computes `left` more prompt tokens, then writes `output_tokens`.

    With `pulls` its prompt's KV cache comes from another engine, with `keeps` it goes to another when it is computed.
    """

    __slots__ = (
        "cached_tokens",
        "done",
        "expected",
        "hold",
        "keeps",
        "left",
        "output_tokens",
        "pulls",
        "request",
        "source",
        "turn",
    )

    def __init__(self, request: Request, turn: Turn, *, pulls: bool = False, keeps: bool = False) -> None:
        self.request = request
        self.turn = turn
        self.pulls = pulls
        self.keeps = keeps
        self.output_tokens = 1 if keeps else turn.output_tokens
        self.cached_tokens = 0
        self.done = 0
        self.left = turn.prompt_tokens
        self.expected = -1
        """Tokens to compute as foreseen in the queue; -1 until somebody asks."""
        self.hold: Hold | None = None
        self.source: Job | None = None
        """The job whose KV cache this one pulls."""
