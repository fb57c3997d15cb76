from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.fleet.fake_engine import FakeEngine

from warmroute.config import Config
from warmroute.fleet import Fleet, FleetTimes
from warmroute.scheduling.worker import Worker

QUICK = FleetTimes(
    retry=0.03,
    register_spacing=0.01,
    register_limit=5.0,
    acquaintance=5.0,
    expiry=30.0,
    leave_check=0.01,
    housekeeping=0.02,
    hint_spacing=0.02,
    report_age=0.2,
)

MakeEngine = Callable[..., Awaitable[FakeEngine]]
MakeFleet = Callable[..., Awaitable["WatchedFleet"]]


class WatchedFleet(Fleet):
    """A fleet that remembers whose prefixes it had forgotten."""

    forgotten: list[Worker]


@pytest.fixture
async def make_engine() -> AsyncIterator[MakeEngine]:
    engines: list[FakeEngine] = []

    async def make(host: str = "127.0.0.1", *, up: bool = True) -> FakeEngine:
        engine = FakeEngine(host)
        engines.append(engine)
        await engine.start()
        if not up:
            await engine.stop()
        return engine

    yield make
    for engine in engines:
        engine.gate.set()
        engine.metrics_gate.set()
        await engine.stop()


@pytest.fixture
async def make_fleet() -> AsyncIterator[MakeFleet]:
    fleets: list[Fleet] = []

    async def make(*workers: str, tick: float = 0.05, timeout: float = 5.0, splitwise: bool = False, **more) -> Fleet:
        times = more.pop("times", QUICK)
        manager = {"worker": workers, "health_check_interval_secs": tick, "health_check_timeout_secs": timeout}
        options = {key: more.pop(key) for key in ("on_change", "on_frozen", "poll_interval") if key in more}
        scheduler = more.pop("scheduler", {})
        sections = {"manager": {**manager, **more}, "server": {"splitwise": splitwise}, "scheduler": scheduler}
        config = Config.model_validate(sections)
        forgotten: list[Worker] = []
        fleet = WatchedFleet(config, forgotten.append, times=times, **options)
        fleet.forgotten = forgotten
        fleets.append(fleet)
        await fleet.start()
        return fleet

    yield make
    for fleet in fleets:
        await fleet.stop()
