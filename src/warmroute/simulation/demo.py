"""Compares two policies of the router: the same load on the same fresh engines, once for each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from warmroute.simulation.load.client import LoadClient
from warmroute.simulation.load.records import Record, Summary
from warmroute.simulation.load.runner import LoadRun
from warmroute.simulation.load.synthetic import SyntheticLoad
from warmroute.simulation.load.workload import Overrides
from warmroute.simulation.processes import Children, free_ports
from warmroute.simulation.settings import EngineSettings, Role
from warmroute.simulation.timing import Timing

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What is compared: `engines` by their role, on which the policies choose among those of `role`.

    The caches hold what a quarter of the users need, but not what all of them need.
    """

    role: Role = "mixed"
    engines: Mapping[Role, int] = field(default_factory=lambda: {"mixed": 4})
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

    @property
    def title(self) -> str:
        """What is compared, in words."""
        kind = "" if self.role == "mixed" else f"{self.role} "
        others = "".join(f", {count} {role} engines" for role, count in self.engines.items() if role != self.role)
        engines = f"{self.engines[self.role]} simulated {kind}engines"
        return f"{engines} with caches of {self.engine.cache_tokens:,} tokens{others}"


def pd_plan() -> DemoPlan:
    """Two prefill and two decode engines.

    With half of the tenants on each, the caches of the prefill engines nearly suffice; with all of them they do not.
    """
    return DemoPlan(
        role="prefill",
        engines={"prefill": 2, "decode": 2},
        load=SyntheticLoad(sessions=72, tenants=12),
        engine=EngineSettings(
            dialect="vllm", cache_tokens=24_000, timing=Timing(prefill_speed=8_000, decode_speed=120)
        ),
    )


@dataclass(frozen=True, slots=True)
class Round:
    """What was measured; of pairs of engines also how many KV caches came to their own prompt, and how many did not."""

    load: Summary
    kv_confirmed: int | None = None
    kv_wrong: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        confirmed = {} if self.kv_confirmed is None else {"kv_confirmed": self.kv_confirmed, "kv_wrong": self.kv_wrong}
        return {**self.load.as_dict(), **confirmed}


async def play_round(plan: DemoPlan, policy: str, on_record: Callable[[Record], None]) -> Round:
    """Start fresh engines and a router with `policy`, play the load, stop everything. Raises ChildError."""
    with tempfile.TemporaryDirectory(prefix="warmroute-demo-") as directory, Children(Path(directory)) as children:
        router_port, *ports = free_ports(1 + sum(plan.engines.values()))
        router = f"http://127.0.0.1:{router_port}"
        engines: dict[Role, list[int]] = {}
        for role, count in plan.engines.items():
            engines[role], ports = ports[:count], ports[count:]
            children.start("engine", *_engine_flags(plan.engine, role, engines[role]))
        async with aiohttp.ClientSession(trust_env=False) as http:
            children.start("serve", *_router_flags(plan, policy, router_port, engines))
            await children.until(lambda: _sees_workers(http, router, plan.engines), START_SECONDS)
            async with LoadClient(router) as client:
                run = LoadRun(client, plan.load.make(), Overrides(model=plan.engine.model), on_record)
                await run.closed_loop(plan.concurrency)
            decode_engines = [f"http://127.0.0.1:{port}" for port in engines.get("decode", [])]
            if not decode_engines:
                return Round(run.summary())
            counts = [await _handovers(http, url) for url in decode_engines]
        confirmed = sum(count["received"] for count in counts)
        return Round(run.summary(), confirmed, sum(count["mismatches"] + count["failed"] for count in counts))


def _engine_flags(engine: EngineSettings, role: Role, ports: list[int]) -> list[str]:
    """The cache of decode engines is not what is compared: they get the default, in which all users have room."""
    flags = {
        "--ports": ",".join(map(str, ports)),
        "--role": role,
        "--dialect": engine.dialect,
        "--cache-tokens": EngineSettings().cache_tokens if role == "decode" else engine.cache_tokens,
        "--prefill-speed": engine.timing.prefill_speed,
        "--decode-speed": engine.timing.decode_speed,
    }
    return [str(part) for flag in flags.items() for part in flag]


def _router_flags(plan: DemoPlan, policy: str, port: int, engines: Mapping[Role, list[int]]) -> list[str]:
    names: Mapping[Role, str] = {"mixed": "worker", "prefill": "prefill", "decode": "decode"}
    workers = [
        flag
        for role, ports in engines.items()
        for at in ports
        for flag in (f"--{names[role]}", f"http://127.0.0.1:{at}")
    ]
    policy_flag = "--policy" if plan.role == "mixed" else f"--{plan.role}-policy"
    where = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    return [*where, policy_flag, policy, *workers]


async def _sees_workers(http: aiohttp.ClientSession, router: str, expected: Mapping[Role, int]) -> bool:
    """Whether the router is there and has found so many healthy workers."""
    try:
        async with http.get(f"{router}/registered_number", timeout=aiohttp.ClientTimeout(total=2.0)) as response:
            if response.status != 200:
                return False
            found = await response.json()
            return all(found[role] == count for role, count in expected.items())
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _handovers(http: aiohttp.ClientSession, engine: str) -> dict[str, int]:
    """What a decode engine has counted."""
    async with http.get(f"{engine}/simulation", timeout=aiohttp.ClientTimeout(total=10.0)) as response:
        told: dict[str, int] = (await response.json())["kv"]
        return told
