"""Who is killed and who comes back: one to three of the engines are up, and one at least is known to be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import aiohttp

from benchmarks.soak.processes import Process
from benchmarks.soak.watch import healthy_workers

_AFTER_START = (0.5, 3.0)
_AFTER_KILL = (2.0, 5.0)
"""Longer than a request waits for its first byte, or some would lose more workers than may be tried."""


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
                has_killed = await self._step(await self._sure(http))
                await asyncio.sleep(self._rng.uniform(*(_AFTER_KILL if has_killed else _AFTER_START)))

    async def _sure(self, http: aiohttp.ClientSession) -> set[str]:
        """Those that can be counted on when all others are killed: they serve, and the router knows."""
        known = await healthy_workers(http, self._url)
        return {name for name in known if await _is_well(http, name)}

    async def _step(self, sure: set[str]) -> bool:
        up = [name for name, engine in self._engines.items() if engine.is_up]
        down = [name for name in self._engines if name not in up]
        victims = [name for name in up if sure - {name}]
        if len(up) < len(self._engines) - 1 and (not victims or self._rng.random() < 0.5):
            await self._engines[self._rng.choice(down)].start()
        elif victims:
            await self._engines[self._rng.choice(victims)].kill()
            self.kills += 1
            return True
        return False


async def _is_well(http: aiohttp.ClientSession, engine: str) -> bool:
    try:
        async with http.get(f"http://{engine}/health") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
