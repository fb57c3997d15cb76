"""A publisher of KV events as engines have one: PUB, and a ROUTER that replays what is still in its buffer."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import msgspec
import zmq
import zmq.asyncio
from tests.support.kv_events import SIZE, ids, name

END = (2**64 - 1).to_bytes(8, "big")


class ScriptedPublisher:
    """Listens on two loopback ports. `loses` keeps published messages from the subscribers, not from the buffer."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:*", *, replays: bool = True, topic: bytes = b"kv") -> None:
        self.topic = topic
        self.buffer: list[tuple[int, bytes]] = []
        self.next = 0
        self.loses = False
        self.asked: list[int] = []
        self._endpoint = endpoint
        self._replays = replays
        self._context = zmq.asyncio.Context()
        self._task: asyncio.Task[None] | None = None
        self.address = self.replay = ""

    async def __aenter__(self) -> Self:
        self._pub = self._context.socket(zmq.XPUB)
        self._pub.setsockopt(zmq.XPUB_VERBOSE, 1)
        if "*" in self._endpoint:
            self._pub.bind(self._endpoint)
            self.address = self._pub.getsockopt_string(zmq.LAST_ENDPOINT)
        else:
            self._pub.connect(self._endpoint)
        if self._replays:
            self._router = self._context.socket(zmq.ROUTER)
            self._router.bind("tcp://127.0.0.1:*")
            self.replay = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
            self._task = asyncio.create_task(self._answer_replays())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._context.destroy(linger=0)

    async def subscribed(self) -> None:
        """Returns when somebody has subscribed."""
        async with asyncio.timeout(10):
            while not (await self._pub.recv()).startswith(b"\x01"):
                pass  # somebody has left

    def restart(self) -> None:
        """Begin anew, as another process at the same address would."""
        self.buffer.clear()
        self.next = 0

    async def publish(self, *events: Any, rank: int = 0) -> None:
        """Publish one batch."""
        payload = msgspec.msgpack.encode([1.0, list(events), rank])
        number, self.next = self.next, self.next + 1
        self.buffer.append((number, payload))
        if not self.loses:
            await self.send(number.to_bytes(8, "big"), payload)

    async def send(self, *frames: bytes) -> None:
        """Publish frames as they are."""
        await self._pub.send_multipart([self.topic, *frames])

    async def _answer_replays(self) -> None:
        while True:
            client, empty, start = await self._router.recv_multipart()
            first = int.from_bytes(start, "big")
            self.asked.append(first)
            for number, payload in self.buffer:
                if number >= first:
                    await self._router.send_multipart([client, empty, self.topic, number.to_bytes(8, "big"), payload])
            await self._router.send_multipart([client, empty, b"", END, b""])


def stored_map(blocks: str, start: int = 0) -> dict[str, Any]:
    """A BlockStored as vLLM sends it, of the blocks that `tests.support.kv_events` makes of letters."""
    return {
        "type": "BlockStored",
        "block_hashes": [name(blocks[: end + 1]) for end in range(start, len(blocks))],
        "parent_block_hash": name(blocks[:start]) if start else None,
        "token_ids": ids(blocks[start:]),
        "block_size": SIZE,
    }


def removed_map(*prefixes: str) -> dict[str, Any]:
    """A BlockRemoved as vLLM sends it."""
    return {"type": "BlockRemoved", "block_hashes": [name(prefix) for prefix in prefixes]}
