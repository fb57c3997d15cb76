"""One run: fresh engines, a fresh router, the whole of a workload, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.compare.lag import Lag
from benchmarks.compare.texts import TextSession
from benchmarks.compare.workloads import Workload
from benchmarks.processes import Child, fetch, free_port
from benchmarks.routers import Router
from warmroute.replay.trace import Trace
from warmroute.simulation.load.client import LoadClient
from warmroute.simulation.load.records import Summary, percentile
from warmroute.simulation.load.runner import LoadRun
from warmroute.simulation.load.workload import Overrides, Session

ENGINES = 8
_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one router made of a workload. Times are seconds of the engines, `lag` included; shares are 0 to 1.

    `lag` is the larger p99 lateness of the two processes that must keep up, the load generator and the engines.
    `busy` are the shares of a core that load generator, engines and router used; `machine_busy` is the share of all
    cores that anybody used.
    """

    mean: float
    p50: float
    p99: float
    cached_share: float
    imbalance: float
    requests: int
    failed: int
    not_sent: int
    errors: dict[str, int]
    lag: float
    busy: tuple[float, float, float]
    machine_busy: float
    seconds: float


async def play(router: Router, workload: Workload, trace: Trace, seed: int, speed: float, directory: Path) -> Run:
    """Let one router serve the workload, `speed` times as fast as the times in it say."""
    with _engines(workload.cache_tokens, speed) as (engines, ports), _running(router, ports, directory) as (child, url):
        before = [child.cpu_seconds(), engines.cpu_seconds(), time.process_time(), *_machine()]
        with Lag() as lag:
            summary, late = await _load(url, trace, workload.rate, seed, speed)
        after = [child.cpu_seconds(), engines.cpu_seconds(), time.process_time(), *_machine()]
        page = await asyncio.to_thread(fetch, f"http://127.0.0.1:{ports[0]}/figures")
    router_cpu, engine_cpu, load_cpu, used, idle = (b - a for a, b in zip(before, after, strict=True))
    figures = json.loads(page or b"{}")
    lateness = max(figures["lag_p99"], lag.at(0.99), percentile(sorted(late), 0.99))
    first = summary.first_token
    uncached = figures["uncached"]
    return Run(
        mean=first.mean * speed if first else 0.0,
        p50=first.p50 * speed if first else 0.0,
        p99=first.p99 * speed if first else 0.0,
        cached_share=1 - sum(uncached) / figures["prompt"] if figures["prompt"] else 0.0,
        imbalance=max(uncached) * len(uncached) / sum(uncached) if sum(uncached) else 1.0,
        requests=summary.requests,
        failed=summary.failed,
        not_sent=summary.not_sent,
        errors=summary.errors,
        lag=lateness * speed,
        busy=tuple(cpu / summary.elapsed_seconds for cpu in (load_cpu, engine_cpu, router_cpu)),  # type: ignore[arg-type]
        machine_busy=used / (used + idle),
        seconds=summary.elapsed_seconds,
    )


async def _load(url: str, trace: Trace, rate: float, seed: int, speed: float) -> tuple[Summary, list[float]]:
    sessions = [TextSession(session, number) for number, session in enumerate(trace.sessions)]
    starts = [start / speed for start in trace.starts(rate, Random(f"{seed} starts"))]

    def pause(session: Session, turn: int) -> float:
        assert isinstance(session, TextSession)
        return session.think(turn) / speed

    async with LoadClient(url, timeout_seconds=_TIMEOUT_SECONDS) as client:
        run = LoadRun(client, sessions, Overrides(stream=True))
        late = await run.timed(starts, pause)
        return run.summary(), late


@contextlib.contextmanager
def _engines(cache_tokens: int, speed: float) -> Iterator[tuple[Child, list[int]]]:
    """Engines with empty caches, and their ports."""
    options = {"--count": ENGINES, "--speed": speed, "--cache-tokens": cache_tokens}
    flags = [str(part) for option in options.items() for part in option]
    with Child([sys.executable, "-m", "benchmarks.compare.engines", *flags], None) as child:
        yield child, json.loads(child.read_line())


@contextlib.contextmanager
def _running(router: Router, ports: list[int], directory: Path) -> Iterator[tuple[Child, str]]:
    """A router that uses all engines, and where it listens."""
    port = free_port()
    with Child(router.command(port, ports, directory), None, log=directory / f"{router.name}.log") as child:
        child.wait_until(lambda: router.ready(port, len(ports)))
        yield child, f"http://127.0.0.1:{port}"


def _machine() -> tuple[float, float]:
    """Seconds that all cores were busy and idle since the start (proc(5), /proc/stat: idle and iowait are idle)."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    per_second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / per_second, idle / per_second
