"""How long a connection may take to open, told from how long this process was kept from looking.

An event loop that stood still finds an open connection and the end of its time at once, and the end first. So time by
which an alarm came late is given once more, and a moment in any case, before a worker is said to have taken too long.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

MOMENT = 0.02
"""What an event loop takes to notice what is there; an alarm that is less late than that comes in time (seconds)."""
MOST_EXTENSIONS = 5


class OpeningTime:
    """Raises TimeoutError out of its block after `seconds`, not counting those in which this process could not look.

    For one task, as `asyncio.timeout` is.
    """

    __slots__ = ("_alarm", "_cancelling", "_due", "_extensions", "_is_over", "_loop", "_seconds", "_task")

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._loop = loop
        self._extensions = 0
        self._is_over = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "time is kept for a task"  # noqa: S101
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()
        self._wait(self._seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._alarm.cancel()
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _wait(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._alarm = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        late = self._loop.time() - self._due
        if not self._extensions or (late >= MOMENT and self._extensions < MOST_EXTENSIONS):
            self._extensions += 1
            self._wait(max(late, MOMENT))
        else:
            self._is_over = True
            self._task.cancel()
