"""Waiting for a place on a worker, when all of them have as many requests as they may.

Whoever waits costs one entry in a line: no task, no timer. A place that becomes free is given away in the next turn of
the event loop, to who is first in line and can use it; only then a worker is chosen, with all that is known by then.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Collection

from warmroute.config.tree import SchedulerConfig
from warmroute.gateway.driver import suspended
from warmroute.gateway.errors import GatewayError, Overloaded
from warmroute.gateway.exchange import Exchange
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.limited import LimitedScheduler
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.waiting import WaitingLine
from warmroute.scheduling.worker import Pool, Worker
from warmroute.telemetry.metrics import Metrics

_PRIORITY = re.compile(rb"^x-request-priority:[ \t]*([+-]?[0-9]{1,9})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_LONGEST_RETRY_AFTER = 60
_CLOCK_GRAIN = 0.002  # uvloop counts in milliseconds
_LOOK_SECONDS = 1.0
"""How long it may go unnoticed, at most, that a worker is there again without having been given anything back."""


class _Waiter:
    """An exchange in line. `must_wait` tells whether there is still no place that it could take."""

    __slots__ = ("exchange", "is_called", "is_late", "must_wait")

    def __init__(self, exchange: Exchange, must_wait: Callable[[], bool]) -> None:
        self.exchange = exchange
        self.must_wait = must_wait
        self.is_called = False
        self.is_late = False


class Admission:
    """The line of one router. Without a limit on workers nobody ever comes here."""

    def __init__(
        self, options: SchedulerConfig, scheduler: Scheduler, metrics: Metrics, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._line: WaitingLine[_Waiter] = WaitingLine(options.max_queue, options.queue_timeout)
        self._timeout = options.queue_timeout
        self._metrics = metrics
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._limited = scheduler if isinstance(scheduler, LimitedScheduler) else None
        if self._limited is not None:
            self._limited.places.on_close = self.place_freed

    def for_worker(
        self, exchange: Exchange, prompt: Prompt, pool: Callable[[], Pool], excluding: Collection[Worker]
    ) -> Awaitable[None]:
        """Return when it is this exchange's turn to choose a worker of the pool; that must come before the next await.

        Overloaded if its turn does not come in time, or too many wait.
        """
        limited = self._limited
        return self._turn(
            exchange, prompt, excluding, lambda: limited is not None and limited.must_wait(pool(), excluding)
        )

    def for_pair(
        self,
        exchange: Exchange,
        prompt: Prompt,
        pairs: Callable[[], PairPool],
        excluding_prefill: Collection[Worker],
        excluding_decode: Collection[Worker],
    ) -> Awaitable[None]:
        """The same for a pair."""
        limited = self._limited
        return self._turn(
            exchange,
            prompt,
            (*excluding_prefill, *excluding_decode),
            lambda: limited is not None and limited.pair_must_wait(pairs(), excluding_prefill, excluding_decode),
        )

    async def _turn(
        self, exchange: Exchange, prompt: Prompt, tried: Collection[Worker], must_wait: Callable[[], bool]
    ) -> None:
        # Who may not go to some workers has a line of its own, and holds up nobody who may.
        line = (prompt.model, *(worker.id for worker in tried)) if tried else prompt.model
        waiter = _Waiter(exchange, must_wait)
        now = self._loop.time()
        priority = priority_of(exchange.head.forwarded)
        # Who has been let in once is not turned away now for those who came later.
        place = self._line.add(waiter, line, priority, exchange.complete_at, now, beyond_limit=bool(tried))
        if place is None and self._limited is not None and not self._line.has(line) and not must_wait():
            # The others wait for other workers.
            self._limited.someone_waits = False
            self._loop.call_soon(self._changed)
            return
        if place is None:
            self._metrics.queue_drops["full"] += 1
            raise Overloaded(f"All workers are busy and {len(self._line)} requests wait", self._retry_after())
        self._changed()
        self.place_freed()  # there may be one: who comes while others wait is sent here without looking
        try:
            while not waiter.is_called:
                await suspended
                if waiter.is_late:
                    self._metrics.queue_drops["timeout"] += 1
                    raise Overloaded(f"All workers are busy, for {self._timeout:g} s now", self._retry_after())
        except asyncio.CancelledError:
            self._metrics.queue_drops["client_left" if exchange.client_gone else "cancelled"] += 1
            raise
        finally:
            if self._line.remove(place):
                self._changed()
        self._metrics.queue_wait.observe(self._loop.time() - now)

    def place_freed(self) -> None:
        """A place may have become free, or there may be nothing left to wait for: look, in the next turn of the loop.

        Not at once: this is called while a request is being cleared away, or even while memory is.
        """
        if not self._is_due and len(self._line):
            self._is_due = True
            self._loop.call_soon(self._give_away)

    def close(self) -> None:
        """Wait for no timer any longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_away(self) -> None:
        self._is_due = False
        for _ in range(len(self._line)):  # a bound, should somebody who is called come back
            place = self._line.first(_may_go)
            if place is None:
                return
            self._line.remove(place)
            self._line.served(self._loop.time())
            place.who.is_called = True
            if self._limited is not None:
                self._limited.someone_waits = False
            place.who.exchange.wake()  # it chooses before this returns
            self._changed()

    def _changed(self) -> None:
        self._metrics.queue_length = length = len(self._line)
        if self._limited is not None:
            self._limited.someone_waits = length > 0
        if length and self._timer is None:
            self._watch()

    def _watch(self) -> None:
        end = self._line.next_end
        if end is not None:
            self._timer = self._loop.call_at(min(end, self._loop.time() + _LOOK_SECONDS), self._look)

    def _look(self) -> None:
        """End the waiting of those whose time is over. Once a second, see whether somebody may go after all."""
        self._timer = None
        self.place_freed()
        for place in self._line.expired(self._loop.time() + _CLOCK_GRAIN):
            place.who.is_late = True
            place.who.exchange.wake()
        if self._timer is None:
            self._watch()

    def _retry_after(self) -> int:
        return min(max(math.ceil(self._line.seconds_to_clear()), 1), _LONGEST_RETRY_AFTER)


def priority_of(head: bytes) -> int:
    """What `x-request-priority` says among these header lines; 0 without it, or if it is no integer."""
    found = _PRIORITY.search(head)
    return int(found.group(1)) if found else 0


def _may_go(waiter: _Waiter) -> bool:
    try:
        return not waiter.must_wait()
    except GatewayError:  # such as a model that nobody lists any more: the request is to hear of it by itself
        return True
