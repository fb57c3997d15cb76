"""A real router process that is given few open files: it says so, goes on, and gets over it."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.support.http_client import Client, post
from tests.support.router import free_port
from tests.support.scripted_worker import ScriptedWorker

LIMIT = 96
PROC = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not PROC.exists(), reason="reads /proc")


class Process:
    """A router under a limit of open files."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def get(self, path: str) -> int:
        async with await Client.connect(self.port) as client:
            await client.send(b"GET %b HTTP/1.1\r\nHost: r\r\n\r\n" % path.encode())
            return (await client.read_response()).status


@asynccontextmanager
async def limited_router(worker: ScriptedWorker, *flags: str) -> AsyncIterator[Process]:
    port = free_port()
    command = [sys.executable, "-m", "warmroute", "serve", "--host", "127.0.0.1", "--port", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--worker", worker.url, "--health-check-interval-secs", "0.2", *flags),
        stderr=subprocess.DEVNULL,
        env={"PATH": ""},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)),
    )
    try:
        router = Process(process.pid, port)
        async with asyncio.timeout(30):
            while True:
                with suppress(OSError):
                    if await router.get("/ready") == 200:
                        break
                await asyncio.sleep(0.05)
        yield router
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)


async def is_served(router: Process) -> int:
    """The status that a new connection gets; 0 if it is closed without a word."""
    async with await Client.connect(router.port) as client:
        try:
            answer = await client.ask(post())
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
    if answer.status == 503:
        assert answer.value(b"retry-after") == b"1"
        assert "open files are in use" in answer.error["message"]
    return answer.status


async def until_served(router: Process) -> None:
    async with asyncio.timeout(10):
        while await is_served(router) != 200:
            await asyncio.sleep(0.05)


async def test_a_router_without_files_to_spare_refuses_clearly_and_recovers() -> None:
    async with ScriptedWorker() as worker, limited_router(worker) as router:
        async with AsyncExitStack() as clients:
            served = await clients.enter_async_context(await Client.connect(router.port))
            assert (await served.ask(post())).status == 200
            async with asyncio.timeout(20):
                while await is_served(router) != 503:
                    await clients.enter_async_context(await Client.connect(router.port))
            assert await router.get("/health") == 200
            assert (await served.ask(post())).status == 200
        await until_served(router)


async def test_a_flood_of_connections_neither_spins_nor_takes_workers_out() -> None:
    """More connections than files, held open by clients that send nothing."""
    async with ScriptedWorker() as worker, limited_router(worker) as router:
        async with AsyncExitStack() as clients:
            served = await clients.enter_async_context(await Client.connect(router.port))
            assert (await served.ask(post())).status == 200
            for _ in range(3 * LIMIT):
                await clients.enter_async_context(await Client.connect(router.port))
            await asyncio.sleep(0.5)
            cpu, files = router.cpu_seconds, router.files
            await asyncio.sleep(2)  # some ten probes, each on a connection of its own
            assert files < LIMIT
            assert router.cpu_seconds - cpu < 1.0
            assert (await served.ask(post())).status == 200
            assert await router.get("/ready") == 200
        await until_served(router)
