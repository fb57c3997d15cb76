"""One worker's health: probe results counted against the thresholds. No socket, no clock."""

from __future__ import annotations

from warmroute.fleet.states import Event, State, next_state


class Health:
    """Counts results in a row. `reason` says why the worker is not healthy.

    `refusals` counts hints of the data plane, so that a probe that began before a hint can be told from one after it.
    `timeouts` counts probes in a row that were not answered in time. `is_doubted` is true of a worker that was healthy
    up to one of them, or up to a connection that it did not take in time, as long as nothing else is known: better than
    nobody.
    """

    __slots__ = (
        "_failed",
        "_failure_threshold",
        "_needed",
        "_passed",
        "_success_threshold",
        "is_doubted",
        "reason",
        "refusals",
        "state",
        "timeouts",
    )

    def __init__(self, failure_threshold: int, success_threshold: int, state: State = State.STARTING) -> None:
        self._failure_threshold = failure_threshold
        self._success_threshold = success_threshold
        self._needed = success_threshold
        self._passed = 0
        self._failed = 0
        self.state = state
        self.reason = ""
        self.refusals = 0
        self.timeouts = 0
        self.is_doubted = False

    @property
    def is_healthy(self) -> bool:
        """Whether probes allow new requests."""
        return self.state is State.HEALTHY

    @property
    def recovers_on_pass(self) -> bool:
        """Whether one more passed probe makes the worker healthy."""
        return not self.is_healthy and self._passed + 1 >= self._needed

    def record(self, passed: bool, reason: str = "") -> bool:
        """Count one probe that was answered. Returns whether the state changed."""
        self.timeouts = 0
        self.is_doubted = False
        if passed:
            self._failed = 0
            self._passed += 1
            if self._passed < self._needed:
                return False
            return self._advance(Event.PASSED, "")
        self._passed = 0
        self._needed = self._success_threshold
        self._failed += 1
        if self._failed < self._failure_threshold:
            return False
        return self._advance(Event.FAILED, reason)

    def time_out(self, reason: str) -> bool:
        """Count a probe that was not answered in time. Returns whether the state changed.

        One passed probe disproves it, unless the worker was not healthy anyway.
        """
        self.timeouts += 1
        return self.doubt(reason)

    def doubt(self, reason: str) -> bool:
        """Something was not answered in time, if not a probe. Returns whether the state changed."""
        self._passed = 0
        self.is_doubted = self.is_healthy
        if self.is_healthy:
            self._needed = 1
        return self._advance(Event.TIMED_OUT, reason)

    def refuse(self, reason: str) -> bool:
        """Take the data plane's word that nobody answers. Returns whether the state changed.

        One passed probe disproves it, unless the worker was not healthy anyway.
        """
        self.refusals += 1
        self.is_doubted = False
        self._passed = 0
        if self.is_healthy:
            self._needed = 1
        return self._advance(Event.REFUSED, reason)

    def remove(self) -> None:
        """End of this record; every later event is an error."""
        self._advance(Event.REMOVED, "removed")

    def _advance(self, event: Event, reason: str) -> bool:
        before, self.state = self.state, next_state(self.state, event)
        self.reason = reason
        return self.state is not before
