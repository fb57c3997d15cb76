"""One worker's circuit breaker. No socket, no clock: times are seconds of the caller's clock.

    closed --TRIPPED--> open --DUE--> half open --ATTEMPT--> trying --GOOD--> closed
                          ^               ^                    |  |
                          |               +-----UNDECIDED------+  |
                          +-----------------BAD-------------------+
    any --RESET--> closed

It trips after so many failures in a row, or when at least half of enough requests within a window have failed. While it
is half open the worker may get one request, the trial; whatever other requests of it end with decides nothing. A trial
of which nothing is heard in time does not hold the breaker: the next request is another trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from warmroute.fleet.failure_rate import FailureRate


class BreakerState(Enum):
    """Whether the worker gets requests: closed all, open none, half open the next one, trying none but the one."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    TRYING = "trying"


class BreakerEvent(Enum):
    """What can happen to a breaker."""

    TRIPPED = "tripped"
    DUE = "due"
    ATTEMPT = "attempt"
    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    RESET = "reset"


TRANSITIONS: dict[tuple[BreakerState, BreakerEvent], BreakerState] = {
    (BreakerState.CLOSED, BreakerEvent.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.DUE): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.ATTEMPT): BreakerState.TRYING,
    (BreakerState.TRYING, BreakerEvent.GOOD): BreakerState.CLOSED,
    (BreakerState.TRYING, BreakerEvent.BAD): BreakerState.OPEN,
    (BreakerState.TRYING, BreakerEvent.UNDECIDED): BreakerState.HALF_OPEN,
    **{(state, BreakerEvent.RESET): BreakerState.CLOSED for state in BreakerState},
}


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker trips, and for how long (seconds). `failures` in a row; 0: it never trips.

    `share` of at least `requests` within `window` seconds is the other way to trip.
    """

    failures: int = 5
    open_seconds: float = 10.0
    share: float = 0.5
    requests: int = 20
    window: float = 30.0


class Breaker:
    """Its methods return whether the state changed.

    `since` is when it last did, `opened_at` when it last tripped (seconds), `reason` why it is not closed. `openings`
    counts how often it opened.
    """

    __slots__ = ("_rate", "_row", "_rules", "_trial", "opened_at", "openings", "reason", "since", "state")

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._rate = FailureRate(rules.window)
        self._row = 0
        self._trial = b""
        self.state = BreakerState.CLOSED
        self.since = 0.0
        self.opened_at = 0.0
        self.openings = 0
        self.reason = ""

    @property
    def ejects(self) -> bool:
        """Whether the worker is to get no request now."""
        return self.state is BreakerState.OPEN or self.state is BreakerState.TRYING

    @property
    def listens(self) -> bool:
        """Whether good answers, and the begin of attempts, would tell it anything."""
        if self.state is BreakerState.CLOSED:
            return self._row > 0 or self._rate.has_failures
        return self.state is not BreakerState.OPEN

    def failed(self, now: float, reason: str, request_id: bytes) -> bool:
        """A request has failed."""
        if self.state is BreakerState.CLOSED:
            return self._count_failure(now, reason)
        if self._is_trial(request_id):
            self.reason = f"the request that tried it failed, it {reason}"
            return self._advance(BreakerEvent.BAD, now)
        return False

    def succeeded(self, now: float, request_id: bytes) -> bool:
        """A request was served."""
        if self.state is BreakerState.CLOSED:
            self._row = 0
            self._rate.add(now, failed=False)
            return False
        return self._is_trial(request_id) and self._advance(BreakerEvent.GOOD, now)

    def undecided(self, now: float, request_id: bytes) -> bool:
        """A request has ended in a way that says nothing."""
        return self._is_trial(request_id) and self._advance(BreakerEvent.UNDECIDED, now)

    def attempt(self, now: float, request_id: bytes) -> bool:
        """A request is being sent; the first one while half open is the trial."""
        if self.state is not BreakerState.HALF_OPEN:
            return False
        self._trial = request_id
        return self._advance(BreakerEvent.ATTEMPT, now)

    def tick(self, now: float) -> bool:
        """Time has passed."""
        if now - self.since < self._rules.open_seconds:
            return False
        if self.state is BreakerState.OPEN:
            return self._advance(BreakerEvent.DUE, now)
        return self.state is BreakerState.TRYING and self._advance(BreakerEvent.UNDECIDED, now)

    def reset(self, now: float) -> bool:
        """Another process is there: nothing of the old one counts."""
        return self._advance(BreakerEvent.RESET, now)

    def _is_trial(self, request_id: bytes) -> bool:
        return self.state is BreakerState.TRYING and request_id == self._trial

    def _count_failure(self, now: float, reason: str) -> bool:
        self._row += 1
        self._rate.add(now, failed=True)
        rules = self._rules
        if not rules.failures:
            return False
        if self._row >= rules.failures:
            self.reason = f"{self._row} failures in a row, it {reason}"
        elif self._rate.total >= rules.requests and self._rate.failures >= rules.share * self._rate.total:
            self.reason = f"{self._rate.failures} of its last {self._rate.total} requests failed, it {reason}"
        else:
            return False
        self.opened_at = now
        return self._advance(BreakerEvent.TRIPPED, now)

    def _advance(self, event: BreakerEvent, now: float) -> bool:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        self._row = 0
        self._rate.clear()
        if self.state is before:
            return False
        self.since = now
        self.openings += self.state is BreakerState.OPEN
        return True
