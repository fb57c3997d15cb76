"""Wait for the return of a wanted worker that has deregistered itself.

An engine deregisters before it shuts down, and its health check may pass for a while yet. So its return counts only
after it has been seen down.
"""

from __future__ import annotations

import asyncio
import logging

from warmroute.fleet.client import EngineClient
from warmroute.fleet.instance import InstanceInfo
from warmroute.telemetry.guard import Guard

logger = logging.getLogger(__name__)


async def wait_for_return(client: EngineClient, info: InstanceInfo, retry: float) -> None:
    """Probe every `retry` seconds until the worker has failed once and then passed."""
    guard = Guard(logger, f"the wait for {info.url}")
    was_down = False
    while True:
        with guard:
            passed = (await client.probe(info.url)).passed
            if passed and was_down:
                return
            was_down = was_down or not passed
        await asyncio.sleep(retry)
