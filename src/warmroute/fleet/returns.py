"""Wait for the return of a wanted worker that has deregistered itself.

An engine deregisters before it shuts down, and its health check may pass for a while yet. So its return counts only
after it has been seen down.
"""

from __future__ import annotations

import asyncio

from warmroute.fleet.client import EngineClient
from warmroute.fleet.instance import InstanceInfo


async def wait_for_return(client: EngineClient, info: InstanceInfo, retry: float) -> None:
    """Probe every `retry` seconds until the worker has failed once and then passed."""
    while (await client.probe(info.url)).passed:  # noqa: ASYNC110 - nobody could set an event: the engine is elsewhere
        await asyncio.sleep(retry)
    while not (await client.probe(info.url)).passed:  # noqa: ASYNC110
        await asyncio.sleep(retry)
