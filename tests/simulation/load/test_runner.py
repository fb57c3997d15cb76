"""Load runs against simulated engines and against endpoints that misbehave."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable

import pytest
import trustme
from aiohttp import web

from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.load.client import EndpointError, LoadClient
from warmroute.simulation.load.runner import LoadRun
from warmroute.simulation.load.synthetic import SyntheticLoad
from warmroute.simulation.load.workload import Overrides, RecordedBody
from warmroute.simulation.settings import EngineSettings

LOAD = SyntheticLoad(sessions=6, turns=3, tenants=2, system_tokens=100, user_tokens=20, answer_tokens=16)


@pytest.fixture
async def engine() -> AsyncIterator[RunningEngine]:
    running = await start_engine(EngineSettings(speed=100.0))
    yield running
    await running.stop()


@pytest.fixture
async def serve() -> AsyncIterator[Callable]:
    """Serves one handler for every path; gives its URL."""
    runners: list[web.AppRunner] = []

    async def serve_handler(handler: Callable) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        return f"http://{host}:{port}"

    yield serve_handler
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize("stream", [True, False])
async def test_conversations_grow_and_hit_the_cache(engine, stream):
    """The usage that the engine tells is what its own counters say."""
    async with LoadClient(engine.url) as client:
        run = LoadRun(client, LOAD.make(), Overrides(stream=stream))
        await run.closed_loop(3)
    summary = run.summary()
    assert (summary.requests, summary.failed, summary.not_sent) == (18, 0, 0)
    assert summary.output_tokens == 18 * 16 == engine.core.generated_tokens_total
    assert summary.prompt_tokens == engine.core.prompt_tokens_total
    assert summary.cached_tokens == engine.core.cached_tokens_total
    assert summary.cached_share > 0.5
    assert (summary.first_token is not None) == stream


async def test_no_more_sessions_run_at_a_time_than_asked_for(serve):
    """And each session sends its turns one after the other."""
    at_once, most, turns = 0, 0, []

    async def handler(request: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        turns.append(len((await request.json())["messages"]))
        await asyncio.sleep(0.005)
        at_once -= 1
        return web.json_response({"choices": [{"message": {"content": "ok"}}]})

    async with LoadClient(await serve(handler)) as client:
        run = LoadRun(client, LOAD.make(), Overrides(stream=False))
        await run.closed_loop(2)
    assert most == 2
    assert sorted(turns) == sorted([2, 4, 6] * 6)


async def test_the_open_loop_does_not_wait_for_answers(serve):
    """All sessions are on their way although none is answered; the starts follow the seed."""
    arrived = asyncio.Semaphore(0)

    async def handler(request: web.Request) -> web.Response:
        arrived.release()
        await asyncio.Event().wait()
        raise AssertionError

    bodies = [RecordedBody({"prompt": "x"}) for _ in range(20)]
    async with LoadClient(await serve(handler)) as client:
        run = LoadRun(client, bodies, Overrides())
        task = asyncio.create_task(run.open_loop(1000.0, random.Random(1)))
        for _ in range(20):
            await arrived.acquire()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert run.summary().not_sent == 20


async def test_the_timed_loop_keeps_starts_and_pauses(serve):
    """Sessions begin in the order of their times; a turn comes after its pause, counted from the answer before."""
    seen: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()

    async def handler(request: web.Request) -> web.Response:
        seen.append(((await request.json())["prompt"], loop.time()))
        return web.json_response({"choices": [{"text": "x"}]})

    class TwoTurns(RecordedBody):
        def __len__(self) -> int:
            return 2

    sessions = [TwoTurns({"prompt": "second"}), RecordedBody({"prompt": "first"})]
    async with LoadClient(await serve(handler)) as client:
        run = LoadRun(client, sessions, Overrides())
        began = loop.time()
        late = await run.timed([0.1, 0.0], lambda session, turn: 0.2 if turn == 1 and session is sessions[0] else 9.0)
    assert [prompt for prompt, _ in seen] == ["first", "second", "second"]
    assert seen[1][1] >= began + 0.1
    assert seen[2][1] >= seen[1][1] + 0.2
    assert len(late) == 2
    assert min(late) >= 0
    assert run.summary().requests == 3


async def test_a_cancelled_run_tells_what_it_has(engine):
    seen = []
    async with LoadClient(engine.url) as client:
        run = LoadRun(client, LOAD.make(), Overrides(), seen.append)
        task = asyncio.create_task(run.closed_loop(1))
        while len(seen) < 4:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    summary = run.summary()
    assert summary.requests == len(seen)
    assert summary.not_sent == 18 - len(seen)
    assert summary.failed == 0


async def _status(request: web.Request) -> web.Response:
    return web.json_response({"error": {"message": "no"}}, status=503, headers={"X-Router-Worker-URL": "http://w"})


async def _not_an_answer(request: web.Request) -> web.Response:
    return web.json_response({"hello": 1})


async def _stream(request: web.Request, *parts: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for part in parts:
        await response.write(part)
    return response


async def _truncated(request: web.Request) -> web.StreamResponse:
    return await _stream(request, b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n')


async def _in_band_error(request: web.Request) -> web.StreamResponse:
    return await _stream(request, b'data: {"error":{"message":"gone"}}\n\n')


async def _reset(request: web.Request) -> web.StreamResponse:
    response = await _stream(request, b": ping\n\n")
    assert request.transport is not None
    request.transport.abort()
    return response


async def _hang(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("handler", "stream", "kind"),
    [
        (_status, True, "HTTP 503"),
        (_not_an_answer, False, "not an OpenAI answer"),
        (_truncated, True, "stream without [DONE]"),
        (_in_band_error, True, "error in the stream"),
        (_reset, True, "connection: ClientPayloadError"),
        (_hang, True, "timeout"),
    ],
)
async def test_failures_are_told_by_kind_and_end_their_session(serve, handler, stream, kind):
    async with LoadClient(await serve(handler), timeout_seconds=0.3) as client:
        run = LoadRun(client, LOAD.make()[:2], Overrides(stream=stream))
        await run.closed_loop(2)
    summary = run.summary()
    assert summary.errors == {kind: 2}
    assert summary.not_sent == 4
    assert summary.workers == ({"http://w": 2} if handler is _status else {})


async def test_nobody_there():
    async with LoadClient("http://127.0.0.1:9") as client:
        record = await client.send({"prompt": "x"})
        assert record.error == "cannot connect"
        with pytest.raises(EndpointError, match=r"127\.0\.0\.1:9/v1/models: cannot connect: Connection refused$"):
            await client.first_model()


async def test_a_certificate_that_is_not_trusted_is_told_with_the_remedy():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    host, port = server.sockets[0].getsockname()
    async with server, LoadClient(f"https://{host}:{port}") as client:
        assert (await client.send({"prompt": "x"})).error == "certificate not trusted"
        with pytest.raises(
            EndpointError, match=r"is not trusted \(.+\); name the file of those to trust in SSL_CERT_FILE"
        ):
            await client.first_model()


async def test_an_endpoint_that_hangs_is_told(serve):
    async with LoadClient(await serve(_hang), timeout_seconds=0.1) as client:
        with pytest.raises(EndpointError, match=r"/v1/models: TimeoutError"):
            await client.first_model()


async def test_the_first_model_and_the_key(serve):
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers["Authorization"]))
        return web.json_response({"data": [{"id": "m1"}, {"id": "m2"}]})

    async with LoadClient(await serve(handler) + "/v1/", api_key="key") as client:
        assert await client.first_model() == "m1"
    assert seen == [("/v1/models", "Bearer key")]


async def test_an_endpoint_without_models_is_told(serve):
    async with LoadClient(await serve(_not_an_answer)) as client:
        with pytest.raises(EndpointError, match="name one with --model"):
            await client.first_model()


async def test_bodies_go_to_the_path_that_their_fields_call_for(engine):
    async with LoadClient(engine.url) as client:
        for body in (
            {"prompt": "x", "max_tokens": 2},
            {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2},
        ):
            record = await client.send(body, keep_text=True)
            assert (record.error, len(record.text)) == (None, 8)
