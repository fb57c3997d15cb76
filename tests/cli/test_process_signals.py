"""What SIGTERM and SIGINT do to the real process, at its start and while requests run."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from tests.support.http_client import Client, post
from tests.support.router import free_port
from tests.support.scripted_worker import SSE_HEAD, Connection, Request, ScriptedWorker, chunk

WARMROUTE = [sys.executable, "-m", "warmroute"]
FIRST = b'data: {"n": 1}\n\n'
PROBE_STARTS = """
import signal, sys
from warmroute.cli.startup import ends_quietly
import warmroute.cli as cli
def loading(*_):
    print("loading", flush=True)
    while True:
        signal.pause()
sys.modules["warmroute.cli.parser"] = type("M", (), {"__getattr__": loading})()
cli.main(sys.argv[1:])
"""


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    """Begins a stream, and never ends it."""

    async def script(_request: Request, connection: Connection) -> None:
        await connection.send(SSE_HEAD + chunk(FIRST))
        await connection.wait_closed_by_peer()

    async with ScriptedWorker() as engine:
        engine.script = script
        yield engine


async def read_until(words: bytes, stream: asyncio.StreamReader) -> None:
    async with asyncio.timeout(30):
        while words not in (line := await stream.readline()):
            assert line, f"ended without {words!r}"


async def test_a_second_signal_tells_running_streams_and_ends_in_order(worker: ScriptedWorker) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *WARMROUTE,
        "serve",
        "--port",
        str(port),
        "--worker",
        worker.url,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": ""},
    )
    try:
        assert process.stderr is not None
        await read_until(b"is healthy", process.stderr)
        async with await Client.connect(port) as client:
            await client.send(post(body=b'{"stream": true}'))
            assert (await client.read_head()).status == 200
            assert await client.read_chunk() == FIRST
            process.send_signal(signal.SIGTERM)
            await read_until(b"no new requests, 1 running", process.stderr)
            process.send_signal(signal.SIGTERM)
            rest = await client.read_to_end()
            assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert rest.endswith(b"\r\n0\r\n\r\n")
    event = rest.split(b"\r\n")[1].removeprefix(b"data: ")
    assert json.loads(event)["error"]["message"] == "The router is shutting down"
    assert b"Traceback" not in await process.stderr.read()


@pytest.mark.parametrize(
    ("command", "number", "exit_code"),
    [
        ("serve", signal.SIGTERM, 0),
        ("serve", signal.SIGINT, 0),
        ("engine", signal.SIGINT, 0),
        ("demo", signal.SIGINT, 130),
    ],
)
def test_a_signal_while_a_command_is_loading_ends_it_quietly(
    command: str, number: signal.Signals, exit_code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROBE_STARTS, command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (exit_code, "")


def test_a_request_to_reload_while_the_router_is_loading_does_not_end_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROBE_STARTS, "serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


async def test_a_request_to_reload_is_heard_as_soon_as_the_router_starts(tmp_path) -> None:
    """A file that is broken while it starts is told afterwards."""
    config_file = tmp_path / "router.yaml"
    config_file.write_text(f"server: {{port: {free_port()}}}\n")
    code = """
import os, signal, sys
from warmroute.app import Router
import warmroute.cli as cli
start = Router.start
async def slow_start(router):
    open(sys.argv[1], "w").write("server: [")
    os.kill(os.getpid(), signal.SIGHUP)
    await start(router)
Router.start = slow_start
cli.main(["serve", "--config_path", sys.argv[1]])
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(config_file), stderr=asyncio.subprocess.PIPE, env={"PATH": ""}
    )
    try:
        assert process.stderr is not None
        await read_until(b"listens on", process.stderr)
        await read_until(b"the configuration is not reloaded", process.stderr)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)
    assert process.returncode == 0


async def test_sighup_and_a_changed_register_file_reload_the_workers(worker: ScriptedWorker, tmp_path) -> None:
    port, register = free_port(), tmp_path / "register.yaml"
    register.write_text("instances: []\n")
    process = await asyncio.create_subprocess_exec(
        *WARMROUTE,
        "serve",
        "--port",
        str(port),
        "--register-path",
        str(register),
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": ""},
    )
    try:
        assert process.stderr is not None
        await read_until(b"listens on", process.stderr)
        process.send_signal(signal.SIGHUP)
        await read_until(b"configuration reloaded: 0 workers new or changed, 0 gone", process.stderr)
        register.write_text("instances: [broken\n")
        await read_until(b"the configuration is not reloaded", process.stderr)
        register.write_text(f"instances: [{{role: mixed, host_ip: 127.0.0.1, port: {worker.port}}}]\n")
        await read_until(b"configuration reloaded: 1 workers new or changed, 0 gone", process.stderr)
        await read_until(b"is healthy", process.stderr)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)
    assert process.returncode == 0
