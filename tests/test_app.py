"""The parts of a router put together."""

import asyncio

from warmroute.app import Router
from warmroute.config import Config


async def test_an_unexpected_error_does_not_end_the_sweep(caplog):
    router = Router(Config())
    sweeps = []

    class Index:
        def sweep(self, now):
            sweeps.append(now)
            raise RuntimeError("a bug")

    router.index = Index()
    task = asyncio.create_task(router._sweep(0.005))
    async with asyncio.timeout(2):
        while len(sweeps) < 3:
            await asyncio.sleep(0.005)
    task.cancel()
    assert caplog.messages == ["unexpected error in the sweep of the prefix index"]
