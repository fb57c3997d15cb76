"""A real engine process that is stopped (SIGSTOP): it keeps its connections, takes new ones, and answers nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fleet.fake_engine import until
from tests.support.http_client import Client, Response, post
from tests.support.router import config, free_port, running

SLACK = 3.0
"""Seconds that a busy machine may take longer than the five that are promised."""


class EngineProcess:
    """A simulated engine; each prompt takes it 0.3 s, one after the other."""

    def __init__(self, port: int, process: asyncio.subprocess.Process) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = process

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def engine_process() -> AsyncIterator[EngineProcess]:
    port = free_port()
    flags = ["--port", str(port), "--model", "m", "--latency", "0.3", "--max-running", "64"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warmroute", "engine", *flags),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield EngineProcess(port, process)
    finally:
        process.kill()
        await process.wait()


async def ask(port: int, *, stream: bool) -> tuple[Response, float]:
    """The answer, and when it was complete."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2, "stream": stream}
    async with await Client.connect(port) as client:
        await client.send(post(body=body))
        async with asyncio.timeout(30):
            head = await client.reader.readuntil(b"\r\n\r\n")
            answer = Response(head, b"")
            if stream:
                while chunk := await client.read_chunk():
                    answer.body += chunk
            else:
                answer.body = await client.reader.readexactly(int(answer.value(b"content-length")))
    return answer, time.monotonic()


async def test_every_waiting_request_is_answered_by_another_worker_and_the_frozen_one_comes_back():
    async with engine_process() as frozen, engine_process() as other:
        settings = config(
            frozen.url,
            other.url,
            scheduler={"policy": "round_robin"},
            health_check_interval_secs=1.0,
            health_check_timeout_secs=1.0,
        )
        async with running(settings, workers=0) as router:
            await until(lambda: len(router.fleet.pool("mixed", None).candidates) == 2, 30)
            member = router.fleet.get(frozen.url)
            asking = [asyncio.create_task(ask(router.port, stream=bool(number % 4 < 2))) for number in range(8)]
            await until(lambda: member.running == 4)
            frozen.freeze()
            begun = time.monotonic()
            await until(lambda: not member.routable, 2 + SLACK)
            answers = await asyncio.gather(*asking)
            assert max(at for _, at in answers) - begun < 5 + SLACK
            for answer, _ in answers:
                assert answer.status == 200
                assert answer.body.endswith(b"data: [DONE]\n\n") or json.loads(answer.body)["choices"]
            frozen.thaw()
            await until(lambda: member.routable)
            answer, _ = await ask(router.port, stream=False)
            assert answer.status == 200
