"""The course of one request, for a trace: the choices that were made and when. What exports it is in `otlp.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Protocol

from warmroute.scheduling.witness import Witness
from warmroute.scheduling.worker import Candidate, Role


@dataclass(frozen=True, slots=True)
class Chosen:
    """A worker was chosen at `time` (unix nanoseconds), and an attempt on it began."""

    time: int
    role: Role
    policy: str
    worker: str
    candidates: int
    matched_tokens: int


class RequestTrace(Witness):
    """A witness of the scheduler. It passes on what it hears to the witness that was there before it, if one was.

    `received` is when the request was complete, `read` when it had been understood; both in unix nanoseconds.
    """

    __slots__ = ("_other", "choices", "read", "received")

    def __init__(self, received: int, other: object | None) -> None:
        self.received = received
        self.read = time_ns()
        self.choices: list[Chosen] = []
        self._other = other

    def chose(
        self, role: Role, policy: str, candidates: Sequence[Candidate], chosen: Candidate, scores: Sequence[float]
    ) -> None:
        """Write it down."""
        self.choices.append(Chosen(time_ns(), role, policy, chosen.worker.id, len(candidates), chosen.matched_tokens))
        if isinstance(self._other, Witness):
            self._other.chose(role, policy, candidates, chosen, scores)

    def attempt_end(self, index: int, ended: int) -> int:
        """When the attempt of that choice was over: at the next choice for the same role, else at the end."""
        chosen = self.choices[index]
        return next((later.time for later in self.choices[index + 1 :] if later.role == chosen.role), ended)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a request ended. `first_byte` and `time` are unix nanoseconds; `first_byte` is 0 if there was none."""

    time: int
    first_byte: int
    status: int
    outcome: str


class Tracer(Protocol):
    """What traces are given to. `sample_ratio` is the share of those that the client has not decided about."""

    sample_ratio: float

    def begin(self, path: str, request_id: str, parent: str, received: int, other: object | None) -> RequestTrace:
        """A request has been read. `parent` is its traceparent, or empty; `other` the prompt's witness so far."""

    def traceparent(self, trace: RequestTrace) -> str:
        """What workers are told, so that their spans are below this request's."""

    def end(self, trace: RequestTrace, ending: Ending, model: str | None, prompt_tokens: int) -> None:
        """The request is over."""

    def close(self) -> None:
        """Send what is left; takes a while, so not on the event loop."""
