"""Pairs of engines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from warmroute.simulation.engine import RunningEngine

StartPair = Callable[..., Awaitable[tuple[RunningEngine, RunningEngine]]]


@pytest.fixture
def pair(start) -> StartPair:
    """Starts a prefill and a decode engine of one dialect."""

    async def start_pair(dialect: str, **changes: object) -> tuple[RunningEngine, RunningEngine]:
        prefill = await start(dialect=dialect, role="prefill", **changes)
        return prefill, await start(dialect=dialect, role="decode", **changes)

    return start_pair
