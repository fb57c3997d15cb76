"""What can go wrong between the router and those who tell it about workers."""

from __future__ import annotations


class FleetError(Exception):
    """Root of this room's errors."""


class InvalidInstance(FleetError):  # noqa: N818 - named after what was sent
    """A registration or static entry that cannot be accepted, whoever repeats it. Its text is meant for the sender."""


class NotHealthy(FleetError):  # noqa: N818 - it states a fact about the worker, not a fault
    """A new worker that did not pass its probes: it is not stored and may simply register again."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__("service is not healthy")
        self.url = url
        self.reason = reason


class UnknownWorker(FleetError):  # noqa: N818
    """No worker has this id or URL."""

    def __init__(self, worker: str) -> None:
        super().__init__(f"unknown worker: {worker[:200]}")
