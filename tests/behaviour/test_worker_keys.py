"""What the router shows to engines that ask for a key: in every request that it sends them, whoever caused it."""

import asyncio

import aiohttp
from tests.support.http_client import Client, post
from tests.support.router import router_over
from tests.support.scripted_worker import (
    Connection,
    ScriptedWorker,
    read_request,
    response,
)

MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'


class Guarded(ScriptedWorker):
    """An engine that answers 401 to whoever does not show its key, also to probes. `seen` holds target and key."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.key = key
        self.seen: list[tuple[bytes, bytes]] = []
        self.on_connect = self._guard

    async def _guard(self, connection: Connection) -> None:
        while True:
            raw_head, _ = await read_request(connection.reader)
            target = raw_head.split(b" ")[1]
            fields = [line.partition(b": ") for line in raw_head.split(b"\r\n")]
            key = b",".join(value for name, _, value in fields if name.lower() == b"authorization")
            self.seen.append((target, key))
            status = b"200 OK" if key == b"Bearer " + self.key else b"401 Unauthorized"
            await connection.send(response(MODELS if target == b"/v1/models" else b"{}", status))


async def test_every_request_to_a_worker_shows_its_key_and_no_other():
    async with Guarded(b"own") as one, Guarded(b"common") as two:
        security = {"worker_key": (f"{one.url}=own", "common")}
        async with router_over(
            one, two, security=security, scheduler={"policy": "round_robin"}, enable_infer_ready_check=True
        ) as router:
            async with await Client.connect(router.port) as client:
                for _ in range(2):
                    answer = await client.ask(post(headers=[(b"Authorization", b"Bearer of a client")]))
                    assert answer.status == 200
            base = f"http://127.0.0.1:{router.port}"
            async with aiohttp.ClientSession() as http, asyncio.timeout(5):
                await http.post(f"{base}/v1/abort_requests", json={"abort_all": True})
                while (await http.get(f"{base}/ready")).status != 200:
                    await asyncio.sleep(0.01)
        for worker in (one, two):
            targets = {target for target, _ in worker.seen}
            assert {b"/health", b"/v1/models", b"/metrics", b"/v1/chat/completions", b"/v1/abort_requests"} <= targets
            assert {key for _, key in worker.seen} == {b"Bearer " + worker.key}
