"""A gateway between raw sockets: scripted workers on one side, bytes of a client on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from warmroute.config.tree import Config, SchedulerConfig, ServerConfig
from warmroute.engines.dialect import Dialect
from warmroute.engines.peer import Peer
from warmroute.fleet.verdict import Verdict
from warmroute.gateway.gateway import Gateway
from warmroute.gateway.tokenizing import Tokenizing
from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Pool, Role, Worker
from warmroute.telemetry.metrics import Metrics

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + b'{"ok":true}'

Script = Callable[["WorkerSide"], Awaitable[None]]


def post(
    path: bytes = b"/v1/chat/completions", body: bytes = CHAT, headers: Sequence[bytes] = (), version: bytes = b"1.1"
) -> bytes:
    """The bytes of a POST."""
    lines = [b"POST %b HTTP/%b" % (path, version), b"Host: router", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


class WorkerSide:
    """The worker's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> tuple[bytes, bytes]:
        """Head (with its empty line) and body of the next request. IncompleteReadError when there is none."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head, await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the router has closed its end."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """End with a TCP reset."""
        _reset(self.writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def answer_ok(side: WorkerSide) -> None:
    """A worker that answers every request with OK."""
    while True:
        await side.request()
        await side.send(OK)


def answer(*parts: bytes, close: bool = False) -> Script:
    """A worker that answers every request with `parts`, one write each."""

    async def script(side: WorkerSide) -> None:
        while True:
            await side.request()
            for part in parts:
                await side.send(part)
                await asyncio.sleep(0.005)
            if close:
                return

    return script


@dataclass
class FakeFleet:
    """Workers in a fixed order; what the gateway tells of them is remembered."""

    workers: list[Worker] = field(default_factory=list)
    models: set[str] = field(default_factory=lambda: {"m"})
    refused: list[Worker] = field(default_factory=list)
    verdicts: list[tuple[Worker, Verdict]] = field(default_factory=list)
    started: list[Worker] = field(default_factory=list)

    def pool(self, role: Role, model: str | None) -> Pool:
        return Pool(role, tuple(worker.candidate for worker in self.workers))

    def knows_model(self, role: Role, model: str) -> bool:
        return model in self.models

    def judge(self, worker: Worker, verdict: Verdict, request_id: bytes) -> None:
        self.verdicts.append((worker, verdict))
        if verdict is Verdict.REFUSED:
            self.refused.append(worker)

    def attempt_started(self, worker: Worker, request_id: bytes) -> None:
        self.started.append(worker)

    def worker_refused(self, worker: Worker) -> None:
        self.refused.append(worker)

    def pairs(self, model: str | None) -> PairPool:
        return PairPool()

    def decode_alone(self, model: str | None) -> Pool:
        return Pool("decode")

    def dialect(self, worker: Worker) -> Dialect | None:
        return None

    def is_routable(self, worker: Worker) -> bool:
        return True

    def handshake(self, prefill: Worker, decode: Worker) -> tuple[Dialect, Peer, Peer]:
        raise AssertionError("no pair was given out")


class Client:
    """The client's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body of the next answer, by its framing."""
        head = await self.head()
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
            return head, body
        if b"content-length: " in lower:
            length = int(lower.partition(b"content-length: ")[2].split(b"\r\n")[0])
            return head, await self.reader.readexactly(length)
        if lower.startswith((b"http/1.1 204", b"http/1.1 304", b"http/1.1 100")):
            return head, b""
        return head, await self.reader.read()

    async def error(self) -> tuple[int, dict[str, Any]]:
        """Status and error object of the next answer."""
        head, body = await self.answer()
        error: dict[str, Any] = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return int(head.split(b" ")[1]), error

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await self.reader.read()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        _reset(self.writer)


class Rig:
    """One gateway with its books."""

    def __init__(self, gateway: Gateway, fleet: FakeFleet, ledger: Ledger, metrics: Metrics, port: int) -> None:
        self.gateway = gateway
        self.fleet = fleet
        self.ledger = ledger
        self.metrics = metrics
        self.port = port
        self.state = ServerState()
        self._stack = contextlib.AsyncExitStack()

    async def worker(self, script: Script, servers: dict[Worker, asyncio.Server] | None = None) -> Worker:
        """Start a worker that runs `script` for each connection, and add it to the fleet."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await script(WorkerSide(reader, writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._stack.callback(server.close)
        worker = self.add(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        if servers is not None:
            servers[worker] = server
        return worker

    def add(self, address: str) -> Worker:
        worker = Worker(address, f"http://{address}")
        self.fleet.workers.append(worker)
        return worker

    async def client(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._stack.callback(writer.close)
        return Client(reader, writer)

    async def exchange(self, data: bytes) -> tuple[bytes, bytes]:
        """Send a request on a connection of its own and read the answer."""
        client = await self.client()
        await client.send(data)
        return await client.answer()

    async def settled(self) -> None:
        """Wait until no request is under way, then check that nothing is held any more."""
        async with asyncio.timeout(2):
            while self.state.tasks or self.ledger.open_leases:
                await asyncio.sleep(0.002)
        audit = self.ledger.audit()
        assert audit.consistent, audit.problems
        assert not self.ledger.lost_leases
        for worker in self.fleet.workers:
            assert worker.load.running_requests == worker.load.pending_prefill_tokens == worker.load.active_tokens == 0

    def statuses(self) -> dict[int, int]:
        """How many requests ended with which status, as counted."""
        counts: dict[int, int] = {}
        for (_, _, _, status, _), count in self.metrics.requests.items():
            counts[status] = counts.get(status, 0) + count
        return counts

    async def close(self) -> None:
        await self._stack.aclose()


async def control_app(scope: Any, receive: Any, send: Any) -> None:
    """Stands for the control application: echoes path and body size."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    body = b"control %b %d" % (scope["raw_path"], size)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def running_gateway(
    *,
    server: ServerConfig | None = None,
    strict_models: bool = False,
    tokenizer: Tokenizing | None = None,
    policy: Policy = lambda candidates, prompt, rng: candidates[0],
) -> AsyncIterator[Rig]:
    """A gateway on a loopback port. At its end everything that requests held must be back."""
    config = Config(server=server or ServerConfig(), scheduler=SchedulerConfig(strict_models=strict_models))
    ladder, ledger, metrics, fleet = Ladder.default(), Ledger(), Metrics(), FakeFleet()
    scheduler = Scheduler(
        {"mixed": policy},
        PrefixIndex(ladder, 1 << 20, 60),
        ledger,
        rng=Random(1),
        clock=time.monotonic,
    )
    gateway = Gateway(config, scheduler, fleet, metrics, ladder=ladder, tokenizer=tokenizer, rng=Random(2))
    uvicorn_config = uvicorn.Config(
        control_app, http=gateway.protocol_factory, ws="none", lifespan="off", log_config=None, access_log=False
    )
    uvicorn_config.load()
    rig = Rig(gateway, fleet, ledger, metrics, 0)

    def protocol() -> asyncio.Protocol:
        made: asyncio.Protocol = gateway.protocol_factory(config=uvicorn_config, server_state=rig.state, app_state={})
        return made

    listener = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    rig.port = listener.sockets[0].getsockname()[1]
    try:
        yield rig
        await rig.settled()
    finally:
        await rig.close()
        for connection in list(rig.state.connections):
            connection.shutdown()
        listener.close()
        await gateway.close()
        async with asyncio.timeout(2):
            while rig.state.tasks or rig.state.connections or gateway.upstream_connections:
                await asyncio.sleep(0.002)
