"""One replayed request and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from warmroute.replay.trace import Session, Turn
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.pairs import PairLease


class Request:
    """A turn under way. Times are virtual seconds; `first_token` is negative until there is one."""

    __slots__ = ("arrival", "cached_tokens", "first_token", "lease", "position", "session", "turn", "worker")

    def __init__(self, session: Session, position: int, arrival: float) -> None:
        self.session = session
        self.position = position
        self.turn: Turn = session.turns[position]
        self.arrival = arrival
        self.first_token = -1.0
        self.cached_tokens = 0
        self.worker = 0
        self.lease: Lease | PairLease | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A request that has ended. `worker` computed its prompt (an index into the fleet).

    `cached_tokens` came out of that worker's cache, `believed_tokens` is what the router expected. Refused are requests
    that no worker of the fleet has room for; they have no times.
    """

    arrival: float
    first_token: float
    end: float
    worker: int
    prompt_tokens: int
    cached_tokens: int
    believed_tokens: int
    output_tokens: int
    refused: bool = False
