"""How many requests may be tried again because a worker answered 5xx, so that an outage is not amplified.

Time is cut into slots of at least a second. Each slot has an allowance: a share of the rate at which requests came
during the slot before it, or LEAST_PER_SECOND if that is more. Pure: time and the count of requests are handed in.
"""

from __future__ import annotations

SLOT_SECONDS = 1.0
LEAST_PER_SECOND = 10.0


class RetryBudget:
    """`share` of the recent requests; 0 allows nothing at all."""

    __slots__ = ("_allowance", "_least", "_requests_before", "_share", "_since", "_spent")

    def __init__(self, share: float) -> None:
        self._share = share
        self._least = LEAST_PER_SECOND if share > 0 else 0.0
        self._allowance = self._least
        self._since: float | None = None
        self._requests_before = 0
        self._spent = 0

    def spend(self, now: float, requests: int) -> bool:
        """Whether one more may be tried again; it is counted then. `now` in seconds, `requests` so far."""
        since = self._since
        if since is None or now - since >= SLOT_SECONDS:
            if since is not None:
                rate = (requests - self._requests_before) / (now - since)
                self._allowance = max(self._least, self._share * rate)
            self._since = now
            self._requests_before = requests
            self._spent = 0
        if self._spent + 1 > self._allowance:
            return False
        self._spent += 1
        return True
