"""What becomes of a request when workers answer, fail or break off, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from tests.gateway.rig import OK, Rig, Script, WorkerSide, answer, answer_ok, post, running_gateway
from tests.support.descriptors import no_descriptor_left

from warmroute.config.tree import ServerConfig
from warmroute.gateway.tokenizing import Tokenizing
from warmroute.prompts.tokenizer import TokenizerError
from warmroute.scheduling.worker import Worker

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def refusing(rig: Rig) -> str:
    """A worker's address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    rig.add(address)
    return address


def breaking(*parts: bytes, reset: bool = False) -> Script:
    """A worker that reads a request, sends `parts` and breaks off."""

    async def script(side: WorkerSide) -> None:
        await side.request()
        for part in parts:
            await side.send(part)
            await asyncio.sleep(0.01)
        if reset:
            side.reset()

    return script


def noting(asked: list[str], name: str, script: Script) -> Script:
    """The same worker; when it is connected to, its name is put down."""

    async def noting_script(side: WorkerSide) -> None:
        asked.append(name)
        await script(side)

    return noting_script


async def test_no_worker_is_503_with_retry_after():
    async with running_gateway() as rig:
        client = await rig.client()
        await client.send(post() + post())
        head, body = await client.answer()
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in head
        assert b'"message": "Failed to select worker' in body
        await client.answer()
        await rig.settled()
        assert rig.statuses() == {503: 2}


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b"{", None, "Invalid JSON format"),
        (b"", None, "Invalid JSON format"),
        (b"[1]", None, "Invalid JSON format"),
        (b'{"model":1}', "model", "Invalid type"),
        (b'{"stream":"yes"}', "stream", "Invalid type"),
        (b'{"messages":"x"}', "messages", "Invalid type"),
    ],
)
async def test_a_bad_body_is_400(body, param, message):
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post(body=body) + post())
        status, error = await client.error()
        assert (status, error["param"]) == (400, param)
        assert error["message"].startswith(message)
        assert (await client.answer())[1] == b'{"ok":true}'


async def test_strict_models():
    async with running_gateway(strict_models=True) as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post(body=b'{"model":"other"}') + post() + post(body=b"{}"))
        status, error = await client.error()
        assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
        assert (await client.answer())[1] == (await client.answer())[1] == b'{"ok":true}'


async def test_a_worker_that_refuses_is_replaced_and_reported():
    async with running_gateway() as rig:
        refusing(rig)
        worker = await rig.worker(answer_ok)
        head, _ = await rig.exchange(post())
        assert b"X-Router-Worker-URL: %b\r\n" % worker.url.encode() in head
        assert rig.fleet.refused == [rig.fleet.workers[0]]
        await rig.settled()
        assert [(role, id, status) for _, role, id, status, _ in rig.metrics.requests] == [("mixed", worker.id, 200)]


async def test_a_router_without_descriptors_blames_no_worker():
    """The next worker is not tried for it, and none is taken out of service."""
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.answer()
        with no_descriptor_left():
            await client.send(post())
            status, error = await client.error()
        assert (status, error["code"]) == (503, "service_unavailable")
        assert "Too many open files" in error["message"]
        assert rig.fleet.refused == []
        await client.send(post())
        assert (await client.answer())[1] == b'{"ok":true}'


async def slam(side: WorkerSide) -> None:
    """A worker that accepts and closes."""


async def slam_hard(side: WorkerSide) -> None:
    """A worker that accepts and resets."""
    side.reset()


@pytest.mark.parametrize("script", [breaking(), breaking(reset=True), slam, slam_hard])
async def test_a_worker_that_breaks_off_before_a_byte_is_replaced(script):
    async with running_gateway() as rig:
        await rig.worker(script)
        worker = await rig.worker(answer_ok)
        head, _ = await rig.exchange(post())
        assert b"X-Router-Worker-URL: %b\r\n" % worker.url.encode() in head
        assert rig.fleet.refused == []


async def test_when_no_untried_worker_is_left_it_is_502():
    async with running_gateway() as rig:
        refusing(rig)
        await rig.worker(breaking())
        client = await rig.client()
        await client.send(post())
        status, error = await client.error()
        assert status == 502
        assert error["message"].startswith("Failed to connect to backend service")
        await rig.settled()
        assert rig.statuses() == {502: 1}


async def test_a_kept_connection_that_has_died_is_replaced_on_the_same_worker():
    """Whether the worker has closed it meanwhile or ends it upon the next request."""
    connections = 0

    async def script(side: WorkerSide) -> None:
        nonlocal connections
        connections += 1
        await side.request()
        await side.send(OK)
        await side.request()

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        for _ in range(4):
            await client.send(post())
            assert (await client.answer())[1] == b'{"ok":true}'
        assert connections == 4


async def test_connections_are_kept_until_they_have_been_idle_for_too_long():
    connections = 0

    async def script(side: WorkerSide) -> None:
        nonlocal connections
        connections += 1
        await answer_ok(side)

    async with running_gateway(server=ServerConfig(upstream_idle_timeout=0.2)) as rig:
        await rig.worker(script)
        client = await rig.client()
        for _ in range(3):
            await client.send(post())
            await client.answer()
        assert (connections, rig.gateway.upstream_connections) == (1, 1)
        async with asyncio.timeout(2):
            while rig.gateway.upstream_connections:
                await asyncio.sleep(0.01)
        await client.send(post())
        await client.answer()
        assert connections == 2


@pytest.mark.parametrize(
    "response",
    [
        OK + b"surplus",
        OK + OK,
        OK.replace(b"Content-Length", b"Connection: close\r\nContent-Length"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_connection_that_is_not_clean_is_not_used_again(response):
    connections = 0

    async def script(side: WorkerSide) -> None:
        nonlocal connections
        connections += 1
        await answer(response)(side)

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        bodies = []
        for _ in range(2):
            await client.send(post())
            bodies.append((await client.answer())[1])
        assert bodies[0] == bodies[1]
        assert connections == 2


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX: 1\r\n\r\n", b"abcd"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b'{"ok":true}'),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", b"no"),
        (b"HTTP/1.1 429 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", b"no"),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
async def test_every_framing_arrives_whole_and_in_pieces(response, body, size):
    async with running_gateway() as rig:
        parts = [response[start : start + size] for start in range(0, len(response), size)]
        await rig.worker(answer(*parts, close=True))
        client = await rig.client()
        await client.send(post())
        head, got = await (client.answer() if b"304" not in response else _bodiless(client))
        assert got == body
        assert b" 103 " not in head
        assert b"\r\nX: 1" not in head
        await client.send(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[1] == b"control /x 0"


async def _bodiless(client):
    return await client.head(), b""


async def test_an_error_of_the_worker_is_passed_on_and_not_learned():
    error = b"HTTP/1.1 400 Bad\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nno"
    async with running_gateway() as rig:
        worker = await rig.worker(answer(error))
        body = b'{"messages":"%b"}'.replace(b'"%b"', b'[{"content":"' + b"x" * 2000 + b'"}]')
        head, got = await rig.exchange(post(body=body))
        assert head.startswith(b"HTTP/1.1 400 Bad\r\nContent-Type: text/x\r\n")
        assert got == b"no"
        await rig.settled()
        assert rig.gateway.scheduler.index.tokens(worker) == 0
        assert rig.metrics.ttft.sum == 0


async def test_a_served_prompt_is_learned():
    async with running_gateway() as rig:
        worker = await rig.worker(answer_ok)
        body = b'{"messages":[{"content":"' + b"x" * 2000 + b'"}]}'
        for _ in range(2):
            await rig.exchange(post(body=body))
        await rig.settled()
        assert rig.gateway.scheduler.index.tokens(worker) > 400
        assert 0 < rig.metrics.matched_tokens < rig.metrics.prompt_tokens
        assert sum(rig.metrics.ttft.counts) == 2


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ([b": ping\n\n"], b": ping\n\n"),
        ([b"data: 1\n\n"], b"data: 1\n\n"),
        ([b"data: 1\r\n", b"\r\n"], b"data: 1\r\n\r\n"),
        ([b"data: 1\n\n", b"data: {"], b"data: 1\n\ndata: {\n\n"),
    ],
)
async def test_a_broken_event_stream_ends_with_an_error_event(sent, seen, reset):
    async with running_gateway() as rig:
        await rig.worker(breaking(SSE_HEAD, *map(chunk, sent), reset=reset))
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post())
        _, body = await client.answer()
        assert body.startswith(seen + b'data: {"error": {"message": "')
        assert body.endswith(b"}}\n\n")
        assert b"[DONE]" not in body
        assert await client.rest() == b""
        await rig.settled()
        assert rig.statuses() == {502: 1}


async def test_a_broken_event_stream_for_http_1_0():
    async with running_gateway() as rig:
        await rig.worker(breaking(SSE_HEAD, chunk(b"data: 1")))
        client = await rig.client()
        await client.send(post(version=b"1.0"))
        _, body = await client.answer()
        assert body.startswith(b'data: 1\n\ndata: {"error": ')


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n", b"data: 1"),
        (SSE_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), chunk(b"abc")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"abc")),
    ],
)
async def test_any_other_broken_body_ends_with_the_connection(head, part):
    async with running_gateway() as rig:
        await rig.worker(breaking(head, part))
        client = await rig.client()
        await client.send(post())
        await client.head()
        rest = await client.rest()
        assert rest == part
        await rig.settled()
        assert rig.statuses() == {502: 1}


async def test_a_broken_body_without_a_declared_end_is_reset():
    async with running_gateway() as rig:
        await rig.worker(breaking(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"abc")))
        client = await rig.client()
        await client.send(post(version=b"1.0"))
        await client.head()
        with pytest.raises(ConnectionResetError):
            await client.rest()


@pytest.mark.parametrize(
    "response",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000,
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 2",
    ],
)
async def test_no_response_is_the_next_workers_turn_and_502_without_one(response):
    async with running_gateway() as rig:
        await rig.worker(breaking(response))
        client = await rig.client()
        await client.send(post())
        assert (await client.error())[0] == 502
        await rig.worker(answer_ok)
        assert (await rig.exchange(post()))[1] == b'{"ok":true}'


async def test_a_slow_client_makes_the_worker_wait():
    """Neither the router nor its sockets take in the whole answer."""
    total, sent = 64 << 20, 0

    async def script(side: WorkerSide) -> None:
        nonlocal sent
        await side.request()
        await side.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            await side.send(b"x" * 65536)
            sent += 65536
        await side.gone()

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        client.writer.transport.pause_reading()
        await client.send(post())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert 0 < sent < total / 2
        (protocol,) = rig.state.connections
        assert protocol.transport.get_write_buffer_size() < 1 << 20
        client.writer.transport.resume_reading()
        await client.head()
        assert len(await client.reader.readexactly(total)) == total


async def test_a_fault_of_the_router_is_500_and_logged_once(caplog):
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        rig.fleet.knows_model = rig.fleet.pool = None
        client = await rig.client()
        await client.send(post())
        status, error = await client.error()
        assert (status, error["message"]) == (500, "Internal server error")
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        await rig.settled()


async def test_a_cancelled_request_is_told():
    """As the server does when its grace at shutdown is over."""
    async with running_gateway() as rig:
        await rig.worker(breaking(SSE_HEAD, chunk(b"data: 1\n\n"), b""))

        async def hang(side: WorkerSide) -> None:
            await side.request()
            await side.gone()

        await rig.worker(hang)
        rig.fleet.workers.reverse()
        client = await rig.client()
        await client.send(post())
        await asyncio.sleep(0.05)
        for task in rig.state.tasks:
            task.cancel()
        assert (await client.error())[0] == 503


class SlowTokens:
    async def token_ids(self, text):
        await asyncio.sleep(30)
        raise TokenizerError("never")

    def close(self):
        pass


async def test_a_client_that_leaves_while_the_prompt_is_tokenised():
    async with running_gateway(tokenizer=Tokenizing(SlowTokens(), 20)) as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post())
        await asyncio.sleep(0.02)
        client.close()
        await rig.settled()
        assert rig.statuses() == {499: 1}


async def test_a_late_tokenizer_is_not_waited_for():
    async with running_gateway(tokenizer=Tokenizing(SlowTokens(), 0.05)) as rig:
        await rig.worker(answer_ok)
        assert (await rig.exchange(post()))[1] == b'{"ok":true}'


async def test_a_large_body_arrives_whole():
    bodies = []

    async def script(side: WorkerSide) -> None:
        bodies.append((await side.request())[1])
        await side.send(OK)
        await side.gone()

    async with running_gateway() as rig:
        await rig.worker(script)
        body = b'{"prompt":"' + b"x" * 5_000_000 + b'"}'
        await rig.exchange(post(b"/v1/completions", body))
        assert bodies == [body]


async def test_an_answer_that_comes_before_the_request_is_read():
    """As a worker's own 413: it is passed on, and the connection, which still holds the request, is not kept."""

    async def script(side: WorkerSide) -> None:
        await side.reader.readuntil(b"\r\n\r\n")
        await side.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(1)

    async with running_gateway() as rig:
        await rig.worker(script)
        body = b'{"prompt":"' + b"x" * 30_000_000 + b'"}'
        head, _ = await rig.exchange(post(b"/v1/completions", body))
        assert head.startswith(b"HTTP/1.1 413 Too Large\r\n")
        await rig.settled()
        async with asyncio.timeout(1):
            while rig.gateway.upstream_connections:
                await asyncio.sleep(0.01)


async def test_a_worker_that_has_left_meanwhile_is_not_tried():
    async with running_gateway() as rig:

        async def script(side: WorkerSide) -> None:
            await side.request()
            rig.fleet.workers.remove(gone)

        await rig.worker(script)
        gone = await rig.worker(answer_ok)
        left = await rig.worker(answer_ok)
        head, _ = await rig.exchange(post())
        assert b"X-Router-Worker-URL: %b\r\n" % left.url.encode() in head
        await rig.settled()
        assert gone not in rig.ledger.workers()


async def test_a_model_that_has_left_with_its_worker_fails_as_the_worker_did():
    async with running_gateway(strict_models=True) as rig:

        async def script(side: WorkerSide) -> None:
            await side.request()
            rig.fleet.models.clear()

        await rig.worker(script)
        other = await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post())
        status, _ = await client.error()
        assert status == 502
        assert other not in rig.ledger.workers()


@pytest.mark.parametrize("script", [breaking(), breaking(reset=True)])
async def test_a_request_that_workers_do_not_survive_is_given_to_three(script):
    asked: list[str] = []

    async with running_gateway() as rig:
        for number in range(5):
            await rig.worker(noting(asked, str(number), script))
        client = await rig.client()
        await client.send(post())
        status, error = await client.error()
        assert (status, error["code"], asked) == (502, "bad_gateway", ["0", "1", "2"])
        assert rig.fleet.refused == []


async def test_workers_that_refuse_are_all_tried_even_after_a_loss():
    async with running_gateway() as rig:
        refusing(rig)
        await rig.worker(breaking())
        refusing(rig)
        refusing(rig)
        await rig.worker(answer_ok)
        assert (await rig.exchange(post()))[1] == b'{"ok":true}'
        assert len(rig.fleet.refused) == 3


async def test_a_worker_that_took_a_request_on_a_kept_connection_and_refuses_now_has_lost_it():
    died: list[Worker] = []
    servers: dict[Worker, asyncio.Server] = {}

    async with running_gateway() as rig:
        workers = []

        def mortal(number: int) -> Script:
            async def script(side: WorkerSide) -> None:
                await side.request()
                await side.send(OK)
                await side.request()
                died.append(workers[number])
                servers[workers[number]].close()

            return script

        for number in range(4):
            rig.fleet.workers.clear()
            workers.append(await rig.worker(mortal(number), servers))
            assert (await rig.exchange(post()))[1] == b'{"ok":true}'
        rig.fleet.workers[:] = workers
        client = await rig.client()
        await client.send(post())
        assert (await client.error())[0] == 502
        assert died == rig.fleet.refused == workers[:3]


async def test_a_failing_policy_is_told_in_one_line_not_with_each_request(caplog):
    def boom(*_):
        raise KeyError("boom")

    async with running_gateway(policy=boom) as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        for _ in range(5):
            await client.send(post())
            status, error = await client.error()
            assert (status, error["message"]) == (500, "Internal server error")
    lines = [record for record in caplog.records if record.name.startswith("warmroute")]
    assert 1 <= len(lines) <= 2
    assert "boom" in lines[0].getMessage()
    assert lines[0].exc_info is None
