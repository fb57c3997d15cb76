"""A small engine on a real loopback socket, whose answers a test can change at any time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable

from aiohttp import web

SECONDS = 10.0


class FakeEngine:
    """`gate` holds back answers to health checks, `metrics_gate` those to metrics, while cleared.

    `delay` (seconds) slows health checks down. `family` is the name that its metrics begin with, empty for an engine
    whose metrics are off; `owner` is who its models are owned by. `probes` counts health checks as they come,
    `probes_answered` as they are answered, by status.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.health_status = 200
        self.models: list[str] | None = ["m"]
        self.family = "vllm"
        self.owner = ""
        self.running = 0
        self.cache_tokens = 20_000
        self.started_at = 1000.0
        self.abort_status = 200
        self.aborts: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.metrics_gate = asyncio.Event()
        self.metrics_gate.set()
        self.delay = 0.0
        self.probes = 0
        self.probes_answered: Counter[int] = Counter()
        self.probes_now = 0
        self.most_probes = 0
        self.polls = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    @property
    def id(self) -> str:
        return self.url.removeprefix("http://")

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/abort_requests", self._abort)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, request: web.Request) -> web.Response:
        self.probes += 1
        self.probes_now += 1
        self.most_probes = max(self.most_probes, self.probes_now)
        try:
            await self.gate.wait()
            await asyncio.sleep(self.delay)
        finally:
            self.probes_now -= 1
        self.probes_answered[self.health_status] += 1
        return web.Response(status=self.health_status)

    async def _metrics(self, request: web.Request) -> web.Response:
        self.polls += 1
        await self.metrics_gate.wait()
        if not self.family:
            return web.Response(status=404)
        return web.Response(
            text=f"process_start_time_seconds {self.started_at}\n"
            f'{self.family}:num_requests_running{{engine="0"}} {self.running}\n'
            f'{self.family}:num_requests_waiting{{engine="0"}} 1.0\n'
            f'{self.family}:cache_config_info{{block_size="16",kv_cache_size_tokens="{self.cache_tokens}"}} 1.0\n'
        )

    async def _models(self, request: web.Request) -> web.Response:
        if self.models is None:
            return web.Response(status=404)
        owned = {"by": self.port, **({"owned_by": self.owner} if self.owner else {})}
        return web.json_response({"object": "list", "data": [{"id": name, **owned} for name in self.models]})

    async def _abort(self, request: web.Request) -> web.Response:
        self.aborts.append(await request.read())
        return web.Response(status=self.abort_status, text=json.dumps({"port": self.port}))


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until the condition holds; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
