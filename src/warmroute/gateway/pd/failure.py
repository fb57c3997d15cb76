"""A leg that failed, and the answer that it gave, if it did."""

from __future__ import annotations

from dataclasses import dataclass

from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.pd.verdict import Event, Side, event_of
from warmroute.scheduling.worker import Worker


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A worker's whole answer, kept back from the client while there may be a better one.

    `status` is what it is judged by: that of the head, or of the error with which its stream begins.
    """

    head: ResponseHead
    body: bytes
    router_lines: bytes
    status: int

    @property
    def what(self) -> str:
        """What the worker did, in words."""
        return f"answered {self.status}" + ("" if self.status == self.head.status else " in an event stream")

    def pass_to(self, exchange: Exchange) -> None:
        """Answer the client with it after all, unchanged."""
        exchange.attach(None, self.router_lines)
        exchange.response_received(self.head, self.body, True)


class LegFailed(Exception):  # noqa: N818 - named after what has happened
    """One leg of a pair failed before the client got anything; the other leg has been cancelled.

    `cause` is what happened, or the answer that the worker gave.
    """

    def __init__(self, side: Side, worker: Worker, cause: UpstreamError | HeldAnswer) -> None:
        what = cause.what if isinstance(cause, HeldAnswer) else f"failed: {cause}"
        super().__init__(f"{side} worker {worker.id} {what}")
        self.side = side
        self.worker = worker
        self.cause = cause

    @property
    def reason(self) -> str:
        """What the leg did, in words."""
        cause = self.cause
        return f"it {cause.what}" if isinstance(cause, HeldAnswer) else str(cause)

    @property
    def event(self) -> Event:
        """What the leg did."""
        return self.cause.status if isinstance(self.cause, HeldAnswer) else event_of(self.cause)
