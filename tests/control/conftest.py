"""A control app on a real uvicorn, over a real Fleet, with engines that do as they are told. All on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from yarl import URL

from warmroute.config import Config
from warmroute.control.app import create_control_app
from warmroute.control.parts import ControlParts
from warmroute.fleet import Fleet, FleetTimes
from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy
from warmroute.scheduling.scheduler import Scheduler
from warmroute.telemetry.history import History
from warmroute.telemetry.metrics import Metrics

FAST = FleetTimes(
    retry=0.05, register_spacing=0.02, register_limit=1.0, acquaintance=0.5, leave_check=0.02, housekeeping=0.05
)


@dataclass
class FakeEngine:
    """An engine whose answers a test sets. `seen` holds (path, JSON body) of every POST."""

    port: int = 0
    healthy: bool = True
    models: tuple[str, ...] = ("m",)
    metrics_page: str = ""
    chat_status: int = 200
    abort_status: int = 200
    abort_reply: Any = None
    seen: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.id}"

    def record(self, **fields: Any) -> dict[str, Any]:
        """What this engine sends to /register."""
        return {"role": "mixed", "host_ip": "127.0.0.1", "port": self.port, **fields}

    def posts(self, path: str) -> list[Any]:
        return [body for seen_path, body in self.seen if seen_path == path]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/abort_requests", self._abort)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 500)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.metrics_page)

    async def _models(self, request: web.Request) -> web.Response:
        cards = [{"id": name, "object": "model", "owned_by": self.id} for name in self.models]
        return web.json_response({"object": "list", "data": cards})

    async def _chat(self, request: web.Request) -> web.Response:
        self.seen.append((request.path, await request.json()))
        return web.json_response({"object": "chat.completion"}, status=self.chat_status)

    async def _abort(self, request: web.Request) -> web.Response:
        self.seen.append((request.path, await request.json()))
        return web.json_response(self.abort_reply, status=self.abort_status)


@dataclass
class Answer:
    """JSON bodies are decoded, others are text."""

    status: int
    body: Any
    headers: Any


@dataclass
class Control:
    """A running control app and a client for it."""

    parts: ControlParts
    port: int
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Bytes are sent as they are, anything else but None as JSON; the path as it is written."""
        if body is not None:
            body = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self.http.request(method, url, data=body, **options) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            return Answer(response.status, json.loads(text) if is_json else text, response.headers)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def add(self, *engines: FakeEngine) -> None:
        """Register engines."""
        for engine in engines:
            answer = await self.post("/register", engine.record())
            assert answer.status == 200, answer.body


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Wait until the condition holds; the test fails when it does not within `seconds`."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running_control(config: Config, times: FleetTimes = FAST) -> AsyncIterator[Control]:
    """Put a router without its gateway together, serve it, and take it apart again."""
    ledger = Ledger()
    policies = {role: create_policy("request_num", config.scheduler) for role in ("mixed", "prefill", "decode")}
    index = PrefixIndex(Ladder.default(), 1 << 20, 0)
    scheduler = Scheduler(policies, index, ledger, rng=random.Random(1), clock=time.monotonic)
    fleet = Fleet(config, scheduler.forget, times=times)
    metrics = Metrics()
    await fleet.start()
    parts = ControlParts(
        fleet,
        ledger,
        scheduler,
        metrics,
        config,
        "1.2.3",
        History(metrics, fleet.workers),
        upstream_connections=lambda: 7,
        build=dict.fromkeys(("code", "event_loop", "python", "version"), "x"),
        inference_paths={"/v1/chat/completions"},
    )
    server = uvicorn.Server(
        uvicorn.Config(create_control_app(parts), port=0, http="httptools", ws="none", lifespan="on", log_config=None)
    )
    task = asyncio.create_task(server.serve())
    try:
        async with aiohttp.ClientSession() as http:
            async with asyncio.timeout(5):
                while not server.started:
                    await asyncio.sleep(0.005)
            yield Control(parts, server.servers[0].sockets[0].getsockname()[1], http)
    finally:
        server.should_exit = True
        await task
        await fleet.stop()


@pytest.fixture
def make_config() -> Callable[..., Config]:
    def make(manager: dict[str, Any] | None = None, **sections: Any) -> Config:
        defaults = {"health-check-interval-secs": 0.05, "health-check-timeout-secs": 1}
        return Config.model_validate({"manager": {**defaults, **(manager or {})}, **sections})

    return make


@pytest.fixture
async def start_control(make_config: Callable[..., Config]) -> AsyncIterator[Callable[..., Awaitable[Control]]]:
    """Start a control app; keywords are sections of the configuration."""
    async with AsyncExitStack() as stack:

        async def start(times: FleetTimes = FAST, **sections: Any) -> Control:
            return await stack.enter_async_context(running_control(make_config(**sections), times))

        yield start


@pytest.fixture
async def control(start_control: Callable[..., Awaitable[Control]]) -> Control:
    return await start_control()


@pytest.fixture
async def start_engine() -> AsyncIterator[Callable[..., Awaitable[FakeEngine]]]:
    """Start an engine; keywords are fields of FakeEngine."""
    async with AsyncExitStack() as stack:

        async def start(**fields: Any) -> FakeEngine:
            engine = FakeEngine(**fields)
            runner = web.AppRunner(engine.app(), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", engine.port)
            await site.start()
            engine.port = runner.addresses[0][1]
            return engine

        yield start


@pytest.fixture
async def engine(start_engine: Callable[..., Awaitable[FakeEngine]]) -> FakeEngine:
    return await start_engine()


@pytest.fixture
def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
