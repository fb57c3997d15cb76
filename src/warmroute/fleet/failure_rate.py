"""How many of a worker's last requests failed. Two half windows: the last full one, and the one that fills."""

from __future__ import annotations


class FailureRate:
    """Counts over the last half to whole `window` seconds. Memory does not grow with the requests."""

    __slots__ = ("_begun", "_earlier", "_earlier_failures", "_failures", "_half", "_requests")

    def __init__(self, window: float) -> None:
        self._half = window / 2
        self._begun = float("-inf")
        self._earlier = self._earlier_failures = 0
        self._requests = self._failures = 0

    @property
    def failures(self) -> int:
        """Failed requests in the window, as it was when the last one was added."""
        return self._earlier_failures + self._failures

    @property
    def total(self) -> int:
        """All requests in the window."""
        return self._earlier + self._requests

    @property
    def has_failures(self) -> bool:
        """Whether there is anything to remember."""
        return self.failures > 0

    def add(self, now: float, *, failed: bool) -> None:
        """Count one request."""
        age = now - self._begun
        if age >= self._half:
            is_next = age < 2 * self._half
            self._earlier = self._requests if is_next else 0
            self._earlier_failures = self._failures if is_next else 0
            self._requests = self._failures = 0
            self._begun = self._begun + self._half if is_next else now
        self._requests += 1
        self._failures += failed

    def clear(self) -> None:
        """Forget everything."""
        self._earlier = self._earlier_failures = 0
        self._requests = self._failures = 0
