"""Whether a process keeps up: by how much its event loop is late. Slow figures need not be those of a slow router."""

from __future__ import annotations

import asyncio
import time

from warmroute.simulation.load.records import percentile

_STEP_SECONDS = 0.02
_MOST = 20_000


class Lag:
    """Looks how late a timer is, again and again, while it is used as a context."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Lag:
        self._task = asyncio.get_running_loop().create_task(self._watch())
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while len(self._late) < _MOST:
            due = time.perf_counter() + _STEP_SECONDS
            await asyncio.sleep(_STEP_SECONDS)
            self._late.append(max(0.0, time.perf_counter() - due))

    def at(self, share: float) -> float:
        """The lateness, in seconds, that this share of the looks did not exceed; 0 before the first."""
        return percentile(sorted(self._late), share) if self._late else 0.0
