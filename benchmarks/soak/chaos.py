"""Who is killed and who comes back: one to three of the engines are up, and one at least is known to be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import aiohttp

from benchmarks.soak.processes import Process
from benchmarks.soak.watch import healthy_workers

_PAUSE = (0.5, 3.0)


class Chaos:
    """Kills with SIGKILL, at random. `kills` counts them."""

    def __init__(self, engines: Mapping[str, Process], url: str, rng: Random) -> None:
        self._engines = engines
        self._url = url
        self._rng = rng
        self.kills = 0

    async def run(self, until: asyncio.Event) -> None:
        """Go on until the event is set."""
        async with aiohttp.ClientSession(trust_env=False) as http:
            while not until.is_set():
                await self._step(await healthy_workers(http, self._url))
                await asyncio.sleep(self._rng.uniform(*_PAUSE))

    async def _step(self, healthy: set[str]) -> None:
        up = [name for name, engine in self._engines.items() if engine.is_up]
        down = [name for name in self._engines if name not in up]
        # A worker that the router does not know to be back cannot be counted on when the last other one is killed.
        victims = [name for name in up if healthy & set(up) - {name}]
        if len(up) < len(self._engines) - 1 and (not victims or self._rng.random() < 0.5):
            await self._engines[self._rng.choice(down)].start()
        elif victims:
            await self._engines[self._rng.choice(victims)].kill()
            self.kills += 1
