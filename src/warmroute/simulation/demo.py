"""Compares two policies of the router: the same load on the same fresh engines, once for each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from warmroute.simulation.load.client import LoadClient
from warmroute.simulation.load.records import Record, Summary
from warmroute.simulation.load.runner import LoadRun
from warmroute.simulation.load.synthetic import SyntheticLoad
from warmroute.simulation.load.workload import Overrides
from warmroute.simulation.processes import Children, free_ports
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What is compared. The caches hold what a quarter of the users need, but not what all of them need."""

    engines: int = 4
    concurrency: int = 24
    load: SyntheticLoad = field(default_factory=lambda: SyntheticLoad(sessions=72))
    engine: EngineSettings = field(
        default_factory=lambda: EngineSettings(
            dialect="vllm", cache_tokens=16_000, timing=Timing(prefill_speed=10_000, decode_speed=120)
        )
    )

    @property
    def requests(self) -> int:
        """Requests of one round."""
        return self.load.sessions * self.load.turns


async def play_round(plan: DemoPlan, policy: str, on_record: Callable[[Record], None]) -> Summary:
    """Start fresh engines and a router with `policy`, play the load, stop everything. Raises ChildError."""
    with tempfile.TemporaryDirectory(prefix="warmroute-demo-") as directory, Children(Path(directory)) as children:
        *engine_ports, router_port = free_ports(plan.engines + 1)
        engines = [f"http://127.0.0.1:{port}" for port in engine_ports]
        router = f"http://127.0.0.1:{router_port}"
        async with aiohttp.ClientSession(trust_env=False) as http:
            children.start("engine", *_engine_flags(plan.engine, engine_ports))
            workers = [flag for url in engines for flag in ("--worker", url)]
            children.start(
                "serve", "--host", "127.0.0.1", "--port", str(router_port), "--policy", policy, *workers,
                "--log-level", "warning",
            )  # fmt: skip
            await children.until(lambda: _sees_workers(http, router, len(engines)), START_SECONDS)
        async with LoadClient(router) as client:
            run = LoadRun(client, plan.load.make(), Overrides(model=plan.engine.model), on_record)
            await run.closed_loop(plan.concurrency)
        return run.summary()


def _engine_flags(engine: EngineSettings, ports: list[int]) -> list[str]:
    flags = {
        "--ports": ",".join(map(str, ports)),
        "--dialect": engine.dialect,
        "--cache-tokens": engine.cache_tokens,
        "--prefill-speed": engine.timing.prefill_speed,
        "--decode-speed": engine.timing.decode_speed,
    }
    return [str(part) for flag in flags.items() for part in flag]


async def _sees_workers(http: aiohttp.ClientSession, router: str, count: int) -> bool:
    """Whether the router is there and has found that many healthy workers."""
    try:
        async with http.get(f"{router}/registered_number", timeout=aiohttp.ClientTimeout(total=2.0)) as response:
            return response.status == 200 and (await response.json())["mixed"] == count
    except (aiohttp.ClientError, TimeoutError):
        return False
