"""Registration with a router the way FastDeploy engines do it: every five seconds, which is also the heartbeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp

from warmroute.simulation.pd.fastdeploy import parallel_resources
from warmroute.simulation.settings import EngineSettings

REGISTER_TIMEOUT_SECONDS = 5.0
HEALTH_TIMEOUT_SECONDS = 3.0

logger = logging.getLogger(__name__)


def register_info(settings: EngineSettings, port: int, meeting_port: int, *, is_paused: bool) -> dict[str, Any]:
    """The body of `POST /register`. `meeting_port`: the connector or bootstrap port, else the engine's own."""
    device_ids, rdma_ports = parallel_resources(settings.tp_size, meeting_port)
    return {
        "role": settings.role,
        "host_ip": reachable_host(settings.host),
        "port": port,
        "metrics_port": port,
        "connector_port": meeting_port,
        "bootstrap_port": meeting_port,
        "engine_worker_queue_port": port,
        "transfer_protocol": list(settings.transfer_protocol),
        "rdma_ports": rdma_ports,
        "device_ids": device_ids,
        "tp_size": settings.tp_size,
        "is_paused": is_paused,
        "version": settings.model_version,
        "connected_decodes": [],
    }


def reachable_host(host: str) -> str:
    """An address under which a listener on `host` can be reached from this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


async def keep_registered(settings: EngineSettings, url: str, info: Callable[[], dict[str, Any]]) -> None:
    """Register again and again until cancelled; a failed round is logged and the next one tries again."""
    async with aiohttp.ClientSession(trust_env=False) as http:
        while True:
            try:
                if await _is_healthy(http, url):
                    await _register(http, settings, info())
            except (aiohttp.ClientError, TimeoutError) as error:
                logger.warning(
                    "engine %s: cannot register with %s: %s", url, settings.router, str(error) or type(error).__name__
                )
            await asyncio.sleep(settings.heartbeat_seconds)


async def _is_healthy(http: aiohttp.ClientSession, url: str) -> bool:
    timeout = aiohttp.ClientTimeout(total=HEALTH_TIMEOUT_SECONDS)
    async with http.get(f"{url}/health", timeout=timeout) as response:
        return response.status == 200


async def _register(http: aiohttp.ClientSession, settings: EngineSettings, info: dict[str, Any]) -> None:
    timeout = aiohttp.ClientTimeout(total=REGISTER_TIMEOUT_SECONDS)
    async with http.post(f"http://{settings.router}/register", json=info, timeout=timeout) as response:
        if response.status // 100 != 2:
            text = await response.text()
            logger.warning("router %s refused the registration: %d %s", settings.router, response.status, text)
