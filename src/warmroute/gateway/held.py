"""A worker's answer that is kept back from the client while there may be a better one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmroute.gateway.headers import ResponseHead, has_retry_after

if TYPE_CHECKING:
    from warmroute.gateway.exchange import Exchange

REPLACED_STATUSES = frozenset({429, 500, 502, 503, 504})
"""Of an overload or a fault of the worker: another one may serve the request."""

HELD_SECONDS = 1.0
"""How long an answer that is kept back may pause before its end: an error is one piece, and a client is waiting."""

_QUEUE_FULL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A whole answer. `status` is what it is judged by: the head's, or that of the error which its stream is."""

    head: ResponseHead
    body: bytes
    router_lines: bytes
    status: int

    @property
    def what(self) -> str:
        """What the worker did, in words."""
        return f"answered {self.status}" + ("" if self.status == self.head.status else " in an event stream")

    @property
    def is_back_pressure(self) -> bool:
        """Whether the worker is well and merely has too much to do: 429, or a 503 that says when to come back, or that
        a queue is full ("The request queue is full." is SGLang's).
        """
        if self.status == 429:
            return True
        if self.status != 503:
            return False
        text = self.body[:_QUEUE_FULL_BYTES].lower()
        return has_retry_after(self.head) or (b"queue" in text and b"full" in text)

    def pass_to(self, exchange: Exchange) -> None:
        """Answer the client with it after all, unchanged."""
        exchange.attach(None, self.router_lines)
        exchange.response_received(self.head, self.body, True)
