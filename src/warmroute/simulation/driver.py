"""Runs an EngineCore in real time: one timer for the next thing that is due, whatever the number of requests."""

from __future__ import annotations

import asyncio
import math

from warmroute.simulation.core import EngineCore, Job


class Driver:
    """Binds a core to an event loop. `speed` engine seconds pass in one real second."""

    def __init__(self, core: EngineCore, loop: asyncio.AbstractEventLoop, speed: float) -> None:
        self.core = core
        self._loop = loop
        self._speed = speed
        self._origin = loop.time()
        self._frozen_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def now(self) -> float:
        """The present, in engine seconds. It stands still while the engine is frozen."""
        if self._frozen_at is not None:
            return self._frozen_at
        return (self._loop.time() - self._origin) * self._speed

    def submit(self, job: Job) -> None:
        """Queue a job; its `notify` tells of progress."""
        self.core.submit(job, self.now)
        self._deliver()

    def abort(self, job: Job) -> None:
        """End a job and free what it holds."""
        self.core.abort(job, self.now)
        self._deliver()

    def abort_all(self) -> None:
        """End every job."""
        for job in self.core.jobs():
            self.core.abort(job, self.now)
        self._deliver()

    def freeze(self) -> None:
        """Stop the engine's time."""
        self._frozen_at = self.now
        self._cancel_timer()

    def thaw(self) -> None:
        """Let the engine's time go on where it stopped."""
        if self._frozen_at is not None:
            self._origin = self._loop.time() - self._frozen_at / self._speed
            self._frozen_at = None
            self._deliver()

    def _run(self) -> None:
        self._timer = None
        self.core.advance(self.now)
        self._deliver()

    def _deliver(self) -> None:
        for job in self.core.take_touched():
            job.notify()
        self._cancel_timer()
        due = self.core.next_due
        if due < math.inf and self._frozen_at is None:
            self._timer = self._loop.call_at(self._origin + due / self._speed, self._run)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
