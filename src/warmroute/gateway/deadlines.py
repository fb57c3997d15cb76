"""All deadlines of one router, looked at now and then instead of by a timer each.

A request costs nothing for them but a few attributes that it leaves as it goes. A deadline of `s` seconds is therefore
noticed within two looks after it, at most 2 s late where the process runs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from warmroute.config.tree import ServerConfig
from warmroute.gateway.upstream.patience import Patience
from warmroute.gateway.upstream.pool import UpstreamPool
from warmroute.telemetry.guard import Guard

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 1.0
SHORTEST_PAUSE = 0.02
LOOKS_PER_DEADLINE = 8
LATE_SECONDS = 0.25
"""A look that comes so much too late finds what the kernel has not been asked for."""
BODY_BYTES_PER_SECOND = 1000
"""A body may come as slowly as this, beyond client-read-timeout (Apache's mod_reqtimeout takes 500)."""


class Client(Protocol):
    """A client's connection."""

    def check(self, now: float, deadlines: Deadlines) -> None:
        """Act on whatever has taken too long."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All in seconds, 0 for none: `read` from the first byte of a request to its last, `idle` between two requests,
    `request` from there to the end of the answer.
    """

    read: float
    idle: float
    request: float
    patience: Patience

    @classmethod
    def of(cls, options: ServerConfig) -> Deadlines:
        """Those that are configured."""
        patience = Patience(options.first_byte_timeout, options.stream_idle_timeout)
        return cls(options.client_read_timeout, options.client_idle_timeout, options.request_timeout, patience)

    @property
    def pause(self) -> float:
        """How long to wait between two looks."""
        patience = self.patience
        limits = [
            limit for limit in (self.read, self.idle, self.request, patience.first_byte, patience.silence) if limit > 0
        ]
        shortest = min(limits, default=LONGEST_PAUSE * LOOKS_PER_DEADLINE) / LOOKS_PER_DEADLINE
        return min(max(shortest, SHORTEST_PAUSE), LONGEST_PAUSE)

    def reading_is_over(self, began: float, last: float, size: int, now: float) -> str:
        """What was too slow of a request of which `size` bytes have come since `began`, the last at `last`; or ""."""
        if not self.read:
            return ""
        if now - last >= self.read:
            return f"nothing came for {self.read:g} s"
        if now - began >= self.read + size / BODY_BYTES_PER_SECOND:
            return f"only {size} bytes came within {now - began:.0f} s"
        return ""


class Sweep:
    """Looks at all connections, from its creation until `stop`.

    After a time in which this process did not run, what came meanwhile is read before anything is taken for silent.
    """

    def __init__(self, deadlines: Deadlines, upstream: UpstreamPool, loop: asyncio.AbstractEventLoop) -> None:
        self.clients: set[Client] = set()
        self._deadlines = deadlines
        self._upstream = upstream
        self._loop = loop
        self._guard = Guard(logger, "the sweep of deadlines")
        self._was_late = False
        self._wait()

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        # A process that is always late must look all the same.
        self._was_late = now - self._due > LATE_SECONDS and not self._was_late
        if not self._was_late:
            with self._guard:
                self._upstream.check(now)
                for client in tuple(self.clients):
                    client.check(now, self._deadlines)
        self._wait()

    def _wait(self) -> None:
        self._due = self._loop.time() + self._deadlines.pause
        self._timer = self._loop.call_at(self._due, self._look)
