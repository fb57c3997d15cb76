"""All that an engine needs to play its part in prefill/decode disaggregation, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from warmroute.simulation.driver import Driver
from warmroute.simulation.pd.counts import KvCounts
from warmroute.simulation.pd.decode import DecodePart
from warmroute.simulation.pd.door import PULL_PATH, KvDoor
from warmroute.simulation.pd.fastdeploy import FastDeployWire
from warmroute.simulation.pd.holdings import Holdings
from warmroute.simulation.pd.ledger import KvLedger
from warmroute.simulation.pd.plans import Identity, Wire
from warmroute.simulation.pd.prefill import PrefillPart
from warmroute.simulation.pd.puller import KvPuller
from warmroute.simulation.pd.sglang import SglangWire
from warmroute.simulation.pd.vllm import VllmWire
from warmroute.simulation.settings import Dialect, EngineSettings

_WIRES: Mapping[Dialect, Callable[[Identity], Wire]] = {
    "fastdeploy": FastDeployWire,
    "sglang": SglangWire,
    "vllm": VllmWire,
}


def meeting_port_setting(settings: EngineSettings) -> int | None:
    """The port of its own where engines meet, 0 for any; None when there is none."""
    if settings.role == "mixed":
        return None
    if settings.dialect == "fastdeploy":
        return settings.connector_port
    if settings.dialect == "sglang" and settings.role == "prefill":
        return settings.bootstrap_port
    return None


@dataclass(frozen=True, slots=True)
class Station:
    """One engine's equipment. `routes` are served at its meeting port."""

    identity: Identity
    part: PrefillPart | DecodePart
    counts: KvCounts
    routes: tuple[web.RouteDef, ...] = ()
    holdings: Holdings | None = None

    @property
    def held(self) -> int:
        """Handovers that have not ended."""
        return 0 if self.holdings is None else len(self.holdings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "role": self.identity.settings.role,
            "dialect": self.identity.settings.dialect,
            "meeting_port": self.identity.meeting_port,
            "held": self.held,
            "kv": asdict(self.counts),
        }


@asynccontextmanager
async def open_station(identity: Identity, driver: Driver, thawed: asyncio.Event) -> AsyncIterator[Station]:
    """Equip an engine whose role is prefill or decode."""
    settings = identity.settings
    wire = _WIRES[settings.dialect](identity)
    counts = KvCounts()
    if settings.role == "decode":
        async with KvPuller(settings.handover_seconds) as puller:
            yield Station(identity, DecodePart(wire, puller, driver, counts, settings.on_kv_loss), counts)
        return
    ledger = KvLedger(settings.lease_seconds, counts, single_use=wire.single_use)
    holdings = Holdings(ledger, asyncio.get_running_loop())
    door = KvDoor(holdings, driver, thawed)
    part = PrefillPart(wire, holdings, driver, counts)
    try:
        yield Station(identity, part, counts, (web.post(PULL_PATH, door.pull),), holdings)
    finally:
        holdings.close()
