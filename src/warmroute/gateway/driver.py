"""Running a coroutine without a task: it starts at once, and goes on at once when it is resumed.

A task costs an entry in asyncio's weak set of all tasks, a context copy, a future to wait for, and a turn of the loop
at its start and at its end: a tenth of all that a request costs which is answered over a kept connection. (Python
3.12's eager tasks save one turn of it.) The price: code that is run this way has no current task. What needs one, such
as `asyncio.timeout` or an HTTP client, is to be awaited as a task of its own; and a bare yield, as of `sleep(0)`, means
`suspended` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, cast


class _Suspension:
    """Yields once to whoever drives the coroutine. The iterator of a tuple does that without a Python frame."""

    __await__ = partial(iter, (None,))


suspended = cast(Awaitable[None], _Suspension())
"""Await it to wait until the driver is resumed; CancelledError when it is cancelled instead."""


class Driver:
    """Drives one coroutine, which must not raise, to its end."""

    __slots__ = ("_awaited", "_coroutine", "_loop", "_suspended")

    def __init__(self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._awaited: asyncio.Future[Any] | None = None
        self._suspended = True

    def resume(self) -> None:
        """Begin, or go on behind `suspended`; nothing if that is not where the coroutine waits."""
        if not self._suspended:
            return
        self._suspended = False
        try:
            awaited = self._coroutine.send(None)
        except StopIteration:
            return
        if awaited is None:
            self._suspended = True
        else:
            self._wait_for(awaited)

    def cancel(self, msg: object = None) -> None:
        """Raise CancelledError where the coroutine waits, in the next turn of the loop, as a task does.

        Nothing happens if what it waits for is done already.
        """
        if self._suspended:
            self._loop.call_soon(self._cancel)
        elif self._awaited is not None:
            self._awaited.cancel()

    def _cancel(self) -> None:
        if not self._suspended:
            if self._awaited is not None:  # it was resumed meanwhile, and waits for something else
                self._awaited.cancel()
            return
        self._suspended = False
        try:
            awaited = self._coroutine.throw(asyncio.CancelledError())
        except StopIteration:
            return
        if awaited is None:
            self._suspended = True
        else:
            self._wait_for(awaited)

    def _wait_for(self, awaited: asyncio.Future[Any]) -> None:
        awaited._asyncio_future_blocking = False  # as a task does when it has taken a future over
        self._awaited = awaited
        awaited.add_done_callback(self._awaited_done)

    def _awaited_done(self, _: asyncio.Future[Any]) -> None:
        self._awaited = None
        self._suspended = True
        self.resume()
