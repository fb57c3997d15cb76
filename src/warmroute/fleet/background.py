"""Tasks that nobody awaits: held until they end, their failures logged, all ended together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from warmroute.fleet.errors import FleetError

logger = logging.getLogger(__name__)


class Background:
    """The running tasks of one fleet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task. A FleetError is an answer to whoever awaits it; any other exception is logged."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended.

        Again after a second, for a library may lose a cancellation that comes at the moment of its own timeout.
        """
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, FleetError):
            logger.error("unexpected error in task %s", task.get_name(), exc_info=error)
