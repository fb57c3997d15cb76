"""A leg that failed, and the answer that it gave, if it did."""

from __future__ import annotations

from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.held import HeldAnswer
from warmroute.gateway.pd.verdict import Event, Side, event_of
from warmroute.scheduling.worker import Worker


class LegFailed(Exception):  # noqa: N818 - named after what has happened
    """One leg of a pair failed before the client got anything; the other leg has been cancelled.

    `cause` is what happened, or the answer that the worker gave. `is_told`: whoever has to know of it knows.
    """

    def __init__(self, side: Side, worker: Worker, cause: UpstreamError | HeldAnswer, *, is_told: bool = False) -> None:
        what = cause.what if isinstance(cause, HeldAnswer) else f"failed: {cause}"
        super().__init__(f"{side} worker {worker.id} {what}")
        self.side = side
        self.worker = worker
        self.cause = cause
        self.is_told = is_told

    @property
    def reason(self) -> str:
        """What the leg did, in words."""
        cause = self.cause
        return f"it {cause.what}" if isinstance(cause, HeldAnswer) else str(cause)

    @property
    def event(self) -> Event:
        """What the leg did."""
        return self.cause.status if isinstance(self.cause, HeldAnswer) else event_of(self.cause)
