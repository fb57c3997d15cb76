"""A router over scripted prefill and decode workers, and what such workers do when all is well."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.support.http_client import CHAT, post
from tests.support.router import AT_LAST, assert_nothing_held, config, eventually, running
from tests.support.scripted_worker import (
    Connection,
    Request,
    Script,
    ScriptedWorker,
    answering,
    response,
    streaming,
)

from warmroute.app import Router
from warmroute.fleet.times import FleetTimes

DIALECTS = ("fastdeploy", "sglang", "vllm")
HANDLE = b'{"remote_engine_id":"e","remote_block_ids":[[1,2]],"do_remote_prefill":true}'
PREFILL_ANSWER = response(b'{"choices":[],"kv_transfer_params":%b}' % HANDLE)
EVENTS = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number for number in range(3)] + [b"data: [DONE]\n\n"]
STREAM_BODY = b"".join(EVENTS)
JSON_BODY = b'{"choices":[{"message":{"content":"012"}}]}'


def chat(stream: bool = False, **members: Any) -> bytes:
    """A chat request of a client."""
    messages = [{"role": "user", "content": "x" * 400}]
    return post(CHAT, {"model": "m", "messages": messages, "stream": stream, **members})


def good_answer(stream: bool) -> Script:
    """What a decode worker answers when all is well; the body is STREAM_BODY or JSON_BODY."""
    return streaming(EVENTS) if stream else answering(response(JSON_BODY))


@dataclass
class Side:
    """The workers of one role. The first requests to the side, whoever gets them, are for `first`, the rest for `then`.

    `seen` are the requests in the order in which they came, `seen_by` the workers that got them.
    """

    workers: Sequence[ScriptedWorker]
    then: Script
    first: list[Script] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    seen_by: list[ScriptedWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        for worker in self.workers:
            worker.script = partial(self._serve, worker)

    async def _serve(self, worker: ScriptedWorker, request: Request, connection: Connection) -> None:
        script = self.first.pop(0) if self.first else self.then
        self.seen.append(request)
        self.seen_by.append(worker)
        await script(request, connection)

    def forget(self, then: Script) -> None:
        """Behave as if new."""
        self.then = then
        self.first.clear()
        self.seen.clear()
        self.seen_by.clear()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests as objects."""
        return [json.loads(request.body) for request in self.seen]

    async def refuse(self) -> None:
        """All workers of the side refuse connections from now on."""
        for worker in self.workers:
            await worker.stop_listening()
            for connection in tuple(worker.open_connections):
                await connection.close()


@dataclass
class Pairs:
    """A router with its workers."""

    router: Router
    prefill: Side
    decode: Side

    def statuses(self) -> Counter[tuple[str, int]]:
        """How many requests ended with which status, by role, as counted."""
        counts: Counter[tuple[str, int]] = Counter()
        for (_, role, _, status, _), count in self.router.metrics.requests.items():
            counts[role, status] += count
        return counts

    def routable(self) -> int:
        pairs = self.router.fleet.pairs(None)
        return len(pairs.prefill.candidates) + len(pairs.decode.candidates)


@asynccontextmanager
async def pairs_over(
    dialect: str,
    prefill: int = 1,
    decode: int = 1,
    *,
    keeps_connections: bool = True,
    server: dict[str, Any] | None = None,
    times: FleetTimes | None = None,
    **scheduler: Any,
) -> AsyncIterator[Pairs]:
    """A router over so many workers of each role. At the end every lease must be back, and no connection be left."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker()) for _ in range(prefill + decode)]
        urls = [worker.url for worker in workers]
        settings = config(
            server={"splitwise": True} | ({} if keeps_connections else {"upstream_idle_timeout": 0}) | (server or {}),
            scheduler={"prefill_policy": "round_robin", "decode_policy": "round_robin"} | scheduler,
            prefill=urls[:prefill],
            decode=urls[prefill:],
            engine=dialect,
        )
        router = await stack.enter_async_context(running(settings, 0, times))
        pairs = Pairs(
            router,
            Side(workers[:prefill], answering(PREFILL_ANSWER)),
            Side(workers[prefill:], good_answer(stream=False)),
        )
        await eventually(lambda: pairs.routable() == prefill + decode, "all workers are routable", 5)
        yield pairs
        await assert_nothing_held(router)


class Waiting:
    """A worker that waits for its partner: it sends `before`, then nothing, until the router gives up.

    `started` tells when it has the request, `given_up` at which time of the loop the router closed the connection.
    """

    def __init__(self, before: bytes = b"") -> None:
        loop = asyncio.get_running_loop()
        self._before = before
        self.started = asyncio.Event()
        self.given_up: asyncio.Future[float] = loop.create_future()

    async def __call__(self, _request: Request, connection: Connection) -> None:
        if self._before:
            await connection.send(self._before)
        self.started.set()
        await connection.wait_closed_by_peer()
        if not self.given_up.done():
            self.given_up.set_result(asyncio.get_running_loop().time())

    async def closed_at(self) -> float:
        """The time at which the connection was closed; fails when that does not happen within a second."""
        return await asyncio.wait_for(asyncio.shield(self.given_up), AT_LAST)


class Failing:
    """A worker that runs `script` once its partner has got its request; `failed_at` is the time of that."""

    def __init__(self, script: Script, partner: Waiting | None = None) -> None:
        self._script = script
        self.partner = partner
        self.failed_at = 0.0

    async def __call__(self, request: Request, connection: Connection) -> None:
        if self.partner is not None:
            await asyncio.wait_for(self.partner.started.wait(), 5)
        self.failed_at = asyncio.get_running_loop().time()
        await self._script(request, connection)
