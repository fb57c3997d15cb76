"""Runs an EngineCore in real time: one timer for the next thing that is due, whatever the number of requests."""

from __future__ import annotations

import asyncio
import math

from warmroute.simulation.core import EngineCore
from warmroute.simulation.job import FinishReason, Job


class Driver:
    """Binds a core to an event loop. `speed` engine seconds pass in one real second."""

    def __init__(self, core: EngineCore, loop: asyncio.AbstractEventLoop, speed: float) -> None:
        self.core = core
        self._loop = loop
        self._speed = speed
        self._origin = loop.time()
        self._frozen = False
        self._reached = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """The present, in engine seconds: stands still while the engine is frozen, never runs backwards."""
        if not self._frozen:
            self._reached = max(self._reached, (self._loop.time() - self._origin) * self._speed)
        return self._reached

    def submit(self, job: Job) -> None:
        """Queue a job; its `notify` tells of progress."""
        self.core.submit(job, self.now())
        self._deliver()

    def abort(self, job: Job, reason: FinishReason = "abort") -> None:
        """End a job and free what it holds."""
        self.core.abort(job, self.now(), reason)
        self._deliver()

    def received(self, job: Job, *, with_word: bool) -> None:
        """The KV cache of a receiving job has come, `with_word`: the first token as well."""
        self.core.received(job, self.now(), with_word=with_word)
        self._deliver()

    def compute(self, job: Job) -> None:
        """The KV cache of a receiving job will not come: compute it here."""
        self.core.compute(job, self.now())
        self._deliver()

    def let_go(self, job: Job) -> None:
        """Free the blocks that an ended job has kept."""
        self.core.let_go(job, self.now())
        self._deliver()

    def real_seconds(self, engine_seconds: float) -> float:
        """How long so many engine seconds are."""
        return engine_seconds / self._speed

    def abort_all(self) -> None:
        """End every job."""
        for job in self.core.jobs():
            self.core.abort(job, self.now())
        self._deliver()

    def freeze(self) -> None:
        """Stop the engine's time."""
        self.now()
        self._frozen = True
        self._cancel_timer()

    def thaw(self) -> None:
        """Let the engine's time go on where it stopped."""
        if self._frozen:
            self._origin = self._loop.time() - self._reached / self._speed
            self._frozen = False
            self._deliver()

    def _run(self, due: float) -> None:
        # Event loops fire up to a millisecond early: what the timer was set for is due, whatever the clock says.
        self._timer = None
        self._reached = max(self._reached, due)
        self.core.advance(self.now())
        self._deliver()

    def _deliver(self) -> None:
        for job in self.core.take_touched():
            job.notify()
        self._cancel_timer()
        due = self.core.next_due
        if due < math.inf and not self._frozen:
            self._timer = self._loop.call_at(self._origin + due / self._speed, self._run, due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
