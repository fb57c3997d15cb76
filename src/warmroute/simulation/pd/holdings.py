"""A KV ledger in real time: leases run out by themselves, and one can wait for what is not there yet."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Callable

from warmroute.simulation.pd.ledger import ENDED, Kv, KvLedger, State


class Holdings:
    """Binds a ledger to an event loop. Methods are those of the ledger; what they raise, too."""

    def __init__(self, ledger: KvLedger, loop: asyncio.AbstractEventLoop) -> None:
        self._ledger = ledger
        self._loop = loop
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ledger)

    def announce(self, key: str) -> None:
        """The prefill for this key begins."""
        self._ledger.announce(key)
        self._changed(key)

    def offer(self, key: str, kv: Kv, let_go: Callable[[], None]) -> None:
        """The prefill has ended; the lease begins."""
        self._ledger.offer(key, kv, let_go, self._loop.time())
        self._changed(key)

    async def take(self, key: str, seal: str, seconds: float) -> Kv:
        """Wait at most so long for the end of a prefill, also for its begin, then take its KV cache."""
        unfinished = frozenset({None, State.PREFILLING})
        # What has ended under a key that may be used again was perhaps its last use, and the next one is on its way.
        absent = unfinished if self._ledger.single_use else unfinished | ENDED
        with contextlib.suppress(TimeoutError):  # The ledger says what is missing.
            async with asyncio.timeout(seconds):
                while (state := self._ledger.state(key)) in absent:
                    if state is State.PREFILLING:
                        absent = unfinished
                    await self._news(key)
        return self._ledger.take(key, seal)

    def interrupt(self, key: str) -> None:
        """The decode engine left before the end."""
        self._ledger.interrupt(key)
        self._changed(key)

    def deliver(self, key: str) -> None:
        """The transfer has ended."""
        self._ledger.deliver(key)
        self._changed(key)

    def withdraw(self, key: str) -> None:
        """Its request ended early."""
        self._ledger.withdraw(key)
        self._changed(key)

    async def ended(self, key: str) -> State:
        """Wait until a handover has ended, whichever way."""
        while (state := self._ledger.state(key)) not in ENDED:
            await self._news(key)
        return state

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()

    async def _news(self, key: str) -> None:
        future = self._loop.create_future()
        self._waiting[key].add(future)
        try:
            await future
        finally:
            self._waiting[key].discard(future)
            if not self._waiting[key]:
                del self._waiting[key]

    def _changed(self, *keys: str) -> None:
        for key in keys:
            for future in self._waiting.get(key, ()):
                if not future.done():
                    future.set_result(None)
        self.close()
        due = self._ledger.next_expiry
        self._timer = self._loop.call_at(due, self._expire, due) if due < math.inf else None

    def _expire(self, due: float) -> None:
        # Event loops fire up to a millisecond early: what the timer was set for is due, whatever the clock says.
        self._changed(*self._ledger.expire(max(due, self._loop.time())))
