"""How long a worker may let a client wait: for the first byte of a body, and between two."""

from __future__ import annotations

from dataclasses import dataclass

from warmroute.gateway.errors import FirstByteTimedOut, UpstreamError, WorkerSilent
from warmroute.gateway.held import HELD_SECONDS

# How far a response has come.
WAITING = 0
"""No byte of it."""
SOME_BYTES = 1
"""No byte of its body: an engine may send the head at once, and then compute."""
ANSWERING = 2
"""A part of its body, or an error's head; nothing new since the last look."""
FRESH = 3
"""The same, and something new."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`first_byte` and `silence` in seconds; 0 is for ever."""

    first_byte: float
    silence: float

    def over(self, waited: float, seen: int, *, is_holding: bool, worker_url: str) -> UpstreamError | None:
        """What a response has failed with for which nothing came for so many seconds; None if it may go on.

        One that is kept back (`is_holding`) has less time: its client has nothing yet, and another worker may serve.
        """
        if seen < ANSWERING:
            if not self.first_byte or waited < self.first_byte:
                return None
            message = f"no byte of an answer within {self.first_byte:g} s"
            return FirstByteTimedOut(message, worker_url, response_seen=seen > WAITING)
        limit = self.silence
        if is_holding:
            limit = min(limit or HELD_SECONDS, HELD_SECONDS)
        if not limit or waited < limit:
            return None
        return WorkerSilent(f"nothing came for {limit:g} s in the middle of an answer", worker_url, response_seen=True)
