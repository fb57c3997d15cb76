"""Running a coroutine without a task: it starts at once, and goes on at once when it is resumed.

A task costs an entry in asyncio's weak set of all tasks, a context copy, a future to wait for, and a turn of the loop
at its start and at its end: a tenth of all that a request costs which is answered over a kept connection. (Python
3.12's eager tasks save one turn of it.) The price: code that is run this way has no current task. What needs one, such
as `asyncio.timeout` or an HTTP client, is to be awaited as a task of its own; and a bare yield, as of `sleep(0)`, means
`suspended` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


@coroutine
def suspended() -> Generator[None, None, None]:
    """Wait until the driver is resumed; CancelledError when it is cancelled instead."""
    yield


class Driver:
    """Drives one coroutine, which must not raise, to its end."""

    __slots__ = ("_awaited", "_coroutine", "_loop", "_suspended")

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._awaited: asyncio.Future[Any] | None = None
        self._suspended = False

    def start(self) -> None:
        """Run up to the first wait."""
        self._go_on()

    def resume(self) -> None:
        """Go on behind `suspended`; nothing if that is not where the coroutine waits."""
        if self._suspended:
            self._go_on()

    def cancel(self, msg: object = None) -> None:
        """Raise CancelledError where the coroutine waits, in the next turn of the loop, as a task does.

        Nothing happens if what it waits for is done already.
        """
        if self._suspended:
            self._loop.call_soon(self._cancel)
        elif self._awaited is not None:
            self._awaited.cancel()

    def _cancel(self) -> None:
        if self._suspended:
            self._go_on(asyncio.CancelledError())
        elif self._awaited is not None:  # it was resumed meanwhile, and waits for something else
            self._awaited.cancel()

    def _go_on(self, error: BaseException | None = None) -> None:
        self._suspended = False
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration:
            return
        if awaited is None:
            self._suspended = True
            return
        awaited._asyncio_future_blocking = False  # as a task does when it has taken a future over
        self._awaited = awaited
        awaited.add_done_callback(self._awaited_done)

    def _awaited_done(self, _: asyncio.Future[Any]) -> None:
        self._awaited = None
        self._go_on()
