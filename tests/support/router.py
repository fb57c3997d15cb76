"""A real router inside the test's event loop, on a loopback port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.scripted_worker import ScriptedWorker

from warmroute.app import Router
from warmroute.config.tree import Config, ManagerConfig, SchedulerConfig, SecurityConfig, ServerConfig
from warmroute.fleet.times import FleetTimes

AT_LAST = 1.0
"""Seconds within which a promise such as "within 50 ms" must have come true on a busy machine."""


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def eventually(condition: Callable[[], bool], what: str, seconds: float = AT_LAST) -> None:
    """Wait until the condition holds; fails with `what` when it does not in time."""
    async with asyncio.timeout(10):
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"not within {seconds} s: {what}"
            await asyncio.sleep(0.005)


def config(
    *urls: str,
    server: dict[str, Any] | None = None,
    scheduler: dict[str, Any] | None = None,
    security: dict[str, Any] | None = None,
    **manager: Any,
) -> Config:
    """A configuration for static workers at `urls`. No breaker, unless it is asked for: tests share workers."""
    return Config(
        server=ServerConfig(host="127.0.0.1", port=free_port(), **(server or {})),
        manager=ManagerConfig(worker=urls, **({"breaker_failures": 0} | manager)),
        scheduler=SchedulerConfig(**({"stats_interval_secs": 0} | (scheduler or {}))),
        security=SecurityConfig(**(security or {})),
    )


@asynccontextmanager
async def running(
    settings: Config, workers: int | None = None, times: FleetTimes | None = None
) -> AsyncIterator[Router]:
    """Run a router until the block ends; then every lease must be back and the ledger must agree.

    It is handed out when `workers` workers are routable (by default, all that are configured).
    """
    router = Router(settings, seed=1, times=times)
    await router.start()
    try:
        expected = len(settings.manager.worker) if workers is None else workers
        await eventually(
            lambda: len(router.fleet.pool("mixed", None).candidates) == expected, "workers are routable", 5
        )
        yield router
        await assert_nothing_held(router)
    finally:
        await router.stop()
    await assert_nothing_held(router)
    await eventually(lambda: router.gateway.upstream_connections == 0, "no connection to a worker is left")


async def assert_nothing_held(router: Router) -> None:
    await eventually(lambda: router.ledger.open_leases == 0, "every lease is back")
    audit = router.ledger.audit()
    assert audit.consistent, audit.problems
    assert router.ledger.lost_leases == 0
    for worker in router.ledger.workers():
        load = worker.load
        assert (load.running_requests, load.pending_prefill_tokens, load.active_tokens) == (0, 0, 0), worker


@asynccontextmanager
async def router_over(*workers: ScriptedWorker, **settings: Any) -> AsyncIterator[Router]:
    """A router over scripted workers that are listening already."""
    async with running(config(*(worker.url for worker in workers), **settings)) as router:
        yield router
