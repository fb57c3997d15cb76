"""How late the event loop is: what every request waits, whatever it asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from warmroute.telemetry.guard import Guard
from warmroute.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 0.5


async def watch_loop_lag(metrics: Metrics, clock: Callable[[], float], interval: float = INTERVAL_SECONDS) -> None:
    """Sleep again and again, and record by how much each sleep was too long (`clock` is in seconds), until cancelled.

    A loop that stands still for a long time gives one value, of that length.
    """
    guard = Guard(logger, "the watch on the event loop")
    while True:
        before = clock()
        await asyncio.sleep(interval)
        with guard:
            metrics.loop_lag.observe(max(0.0, clock() - before - interval))
