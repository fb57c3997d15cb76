"""Simulated engines on loopback, in a hurry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.settings import EngineSettings

StartEngine = Callable[..., Awaitable[RunningEngine]]


@pytest.fixture
async def start() -> AsyncIterator[StartEngine]:
    """Starts engines, a hundred times as fast as real ones, and stops them after the test."""
    engines: list[RunningEngine] = []

    async def start_one(**changes: object) -> RunningEngine:
        engines.append(await start_engine(EngineSettings(**{"speed": 100.0, **changes})))
        return engines[-1]

    yield start_one
    for engine in engines:
        await engine.stop()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A plain client."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session
