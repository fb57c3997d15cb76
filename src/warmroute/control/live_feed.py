"""One stream of frames for all who watch: one a second, made once for everybody, and only while somebody watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from warmroute.telemetry.guard import Guard

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
MAX_WATCHERS = 64


class LiveFeed:
    """Frames by `make_frame`, for as many watchers as come, until `end`.

    A watcher that reads slowly misses frames: nothing is kept for anybody.
    """

    def __init__(self, interval: float = INTERVAL_SECONDS) -> None:
        self._interval = interval
        self.watchers = 0
        self._ended = False
        self._next: asyncio.Future[bytes] | None = None
        self._making: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether MAX_WATCHERS watch already."""
        return self.watchers >= MAX_WATCHERS

    async def frames(self, make_frame: Callable[[], bytes]) -> AsyncIterator[bytes]:
        """Every frame from now on."""
        self.watchers += 1
        try:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
                self._making = asyncio.create_task(self._make(make_frame), name="live feed")
            while not self._ended:
                frame = await asyncio.shield(self._next)
                if frame:
                    yield frame
        finally:
            self.watchers -= 1
            if not self.watchers:
                self._rest()

    def end(self) -> None:
        """End all streams, and every one that is asked for later: the router stops and waits for those who watch."""
        self._ended = True
        if self._next is not None and not self._next.done():
            self._next.set_result(b"")

    def _rest(self) -> None:
        if self._making is not None:
            self._making.cancel()
        self._next = self._making = None

    async def _make(self, make_frame: Callable[[], bytes]) -> None:
        guard = Guard(logger, "the live feed")
        loop = asyncio.get_running_loop()
        while not self._ended:
            await asyncio.sleep(self._interval)
            with guard:
                frame = make_frame()
                told, self._next = self._next, loop.create_future()
                if told is not None and not told.done():
                    told.set_result(frame)
