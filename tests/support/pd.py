"""A router over scripted prefill and decode workers, and what such workers do when all is well."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_client import CHAT, post
from tests.support.router import assert_nothing_held, config, eventually, running
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

    `seen` are the requests in the order in which they came.
    """

    workers: Sequence[ScriptedWorker]
    then: Script = answering(PREFILL_ANSWER)
    first: list[Script] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        for worker in self.workers:
            worker.script = self._serve

    async def _serve(self, request: Request, connection: Connection) -> None:
        script = self.first.pop(0) if self.first else self.then
        self.seen.append(request)
        await script(request, connection)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests as objects."""
        return [json.loads(request.body) for request in self.seen]

    @property
    def worker_ids(self) -> set[str]:
        return {f"127.0.0.1:{worker.port}" for worker in self.workers}

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
        for (_, role, _, status), count in self.router.metrics.requests.items():
            counts[role, status] += count
        return counts

    def routable(self) -> int:
        pairs = self.router.fleet.pairs(None)
        return len(pairs.prefill.candidates) + len(pairs.decode.candidates)


@asynccontextmanager
async def pairs_over(dialect: str, prefill: int = 1, decode: int = 1, **scheduler: Any) -> AsyncIterator[Pairs]:
    """A router over so many workers of each role. At the end every lease must be back, and no connection be left."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker()) for _ in range(prefill + decode)]
        urls = [worker.url for worker in workers]
        settings = config(
            server={"splitwise": True},
            scheduler={"prefill_policy": "round_robin", "decode_policy": "round_robin"} | scheduler,
            prefill=urls[:prefill],
            decode=urls[prefill:],
            engine=dialect,
        )
        router = await stack.enter_async_context(running(settings, 0))
        pairs = Pairs(router, Side(workers[:prefill]), Side(workers[prefill:], good_answer(stream=False)))
        await eventually(lambda: pairs.routable() == prefill + decode, "all workers are routable", 5)
        yield pairs
        await assert_nothing_held(router)


async def elapsed(event: asyncio.Event) -> float:
    """Seconds until the event; fails when it does not come within one."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.wait_for(event.wait(), 1)
    return loop.time() - began
