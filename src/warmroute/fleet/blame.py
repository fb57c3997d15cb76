"""Which worker a failing request was charged to.

A request that breaks every worker it meets must not close the fleet for the others: it counts for the first worker
that it failed on, and not for those that got it after that.
"""

from __future__ import annotations


class Blame:
    """Remembers at most `limit` requests for `keep` seconds each; only failures come here."""

    def __init__(self, limit: int = 4096, keep: float = 60.0) -> None:
        self._limit = limit
        self._keep = keep
        self._charged: dict[bytes, tuple[str, float]] = {}

    def falls_on(self, worker: str, request_id: bytes, now: float) -> bool:
        """Whether the failure counts for this worker."""
        self._drop_old(now)
        first, _ = self._charged.setdefault(request_id, (worker, now))
        return first == worker

    def _drop_old(self, now: float) -> None:
        while self._charged:
            oldest = next(iter(self._charged))
            if len(self._charged) < self._limit and now - self._charged[oldest][1] <= self._keep:
                return
            del self._charged[oldest]
