import asyncio
import errno
import time

import aiohttp
import pytest
from aiohttp import web
from tests.fleet.fake_engine import FakeEngine, until

from warmroute.fleet.address import parse_address
from warmroute.fleet.client import MAX_ANSWER_BYTES, EngineClient, Probe, open_session
from warmroute.fleet.instance import InstanceInfo


@pytest.fixture
async def client():
    async with open_session() as session:
        yield EngineClient(session, "/health", 0.3)


@pytest.fixture
async def serve():
    """Serve one handler for every path; gives the instance that points there."""
    runners = []

    async def start(handler) -> InstanceInfo:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.01, access_log=None)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return InstanceInfo.at(parse_address(f"127.0.0.1:{runner.addresses[0][1]}"), "mixed")

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize("status", [204, 302, 404, 500, 503])
async def test_only_a_200_counts(client, serve, status):
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/health":
            return web.Response(status=status, headers={"location": "/elsewhere"})
        return web.Response()

    info = await serve(handler)
    assert await client.probe(info.url) == Probe(False, f"HTTP {status}")


async def test_a_hanging_probe_ends(client, make_engine):
    engine: FakeEngine = await make_engine()
    engine.gate.clear()
    probe = await client.probe(engine.url)
    assert (probe.passed, probe.reason, probe.timed_out) == (False, "no answer within 0.3 s", True)


async def test_an_alarm_that_comes_late_says_nothing_of_the_engine(client, make_engine):
    engine: FakeEngine = await make_engine()
    engine.gate.clear()
    probing = asyncio.ensure_future(client.probe(engine.url))
    await until(lambda: engine.probes_now)
    time.sleep(0.7)  # the loop of the router is held up
    assert (await probing).is_void


async def test_a_cancellation_at_the_moment_of_the_timeout_is_not_lost(make_engine):
    engine: FakeEngine = await make_engine()
    engine.gate.clear()
    async with open_session() as session:
        client = EngineClient(session, "/health", 0.05)

        async def probe_forever() -> None:
            while True:
                await client.probe(engine.url)

        for _ in range(5):
            task, probes = asyncio.create_task(probe_forever()), engine.probes
            await until(lambda probes=probes: engine.probes > probes)
            asyncio.get_running_loop().call_later(0.06, task.cancel)
            time.sleep(0.1)  # the loop is busy: the timeout and then the cancellation fall due in one turn
            await asyncio.wait([task], timeout=2.0)
            assert task.cancelled()


async def test_nobody_there(client, make_engine):
    engine: FakeEngine = await make_engine(up=False)
    probe = await client.probe(engine.url)
    assert not probe.passed
    assert "onnect" in probe.reason
    assert await client.vitals(InstanceInfo.at(parse_address(engine.url), "mixed")) is None


async def test_an_answer_that_is_not_http(client):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"SSH-2.0-x\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        probe = await client.probe(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert not probe.passed
    assert 0 < len(probe.reason) <= 200


async def test_an_endless_page_is_read_up_to_the_limit(client, serve):
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"vllm:num_requests_running 4\nvllm:num_requests_waiting 0\n")
        while sent < 10 * MAX_ANSWER_BYTES:
            await response.write(b"# nothing but comments\n" * 5000)
            sent += 115_000
        return response

    vitals = await client.vitals(await serve(handler))
    assert vitals is not None
    assert vitals.report is not None
    assert vitals.report.running_requests == 4
    assert sent < 10 * MAX_ANSWER_BYTES


async def test_proxies_of_the_environment_are_not_for_engines(monkeypatch, make_engine):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    engine: FakeEngine = await make_engine()
    async with open_session() as session:
        assert (await EngineClient(session, "health", 0.5).probe(engine.url)).passed


async def test_models_and_vitals_of_an_engine(client, make_engine):
    engine: FakeEngine = await make_engine()
    info = InstanceInfo.at(parse_address(engine.url), "mixed")
    assert await client.models(info) == ({"id": "m", "by": engine.port},)
    vitals = await client.vitals(info)
    assert vitals is not None
    assert (vitals.kv_cache_tokens, vitals.started_at) == (20_000, 1000.0)
    engine.models = None
    assert await client.models(info) is None


async def test_a_router_without_files_learns_nothing_of_a_worker():
    """The file that is missing is its own."""

    def no_file(_address):
        raise OSError(errno.EMFILE, "Too many open files")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=no_file)) as session:
        probe = await EngineClient(session, "/health", 1).probe("http://127.0.0.1:9")
    assert (probe.passed, probe.is_void) == (False, True)
