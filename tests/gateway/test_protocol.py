"""What a client sees on its connection, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tracemalloc

import pytest
from tests.gateway.rig import CHAT, OK, Client, WorkerSide, answer, answer_ok, post, running_gateway

from warmroute.config.tree import ServerConfig


async def test_request_and_answer_pass_unchanged():
    """Path, query, casing, order and body stay the client's and the worker's; only the gateway's own fields come in."""
    heads = []

    async def script(side: WorkerSide) -> None:
        head, body = await side.request()
        heads.append((head, body))
        await side.send(
            b"HTTP/1.1 299 Very Fine\r\nX-Two: b\r\nConnection: keep-alive, X-Gone\r\nX-Gone: 1\r\nx-two: a\r\n"
            b"X-Request-Id: theirs\r\nKeep-Alive: timeout=5\r\nContent-Length: 3\r\n\r\nabc"
        )
        await side.gone()

    async with running_gateway() as rig:
        worker = await rig.worker(script)
        head, body = await rig.exchange(
            post(b"/v1/completions?a=%20b", b'{"prompt" : "x"}', [b"X-Odd: 1", b"TE: trailers", b"x-request-id: mine"])
        )
        assert head == (
            b"HTTP/1.1 299 Very Fine\r\nX-Two: b\r\nx-two: a\r\nContent-Length: 3\r\n"
            b"X-Router-Worker-URL: %b\r\nx-request-id: mine\r\n\r\n" % worker.url.encode()
        )
        assert body == b"abc"
        assert heads == [
            (
                b"POST /v1/completions?a=%%20b HTTP/1.1\r\nHost: %b\r\nX-Odd: 1\r\nContent-Length: 16\r\n"
                b"x-request-id: mine\r\n\r\n" % worker.id.encode(),
                b'{"prompt" : "x"}',
            )
        ]
        await rig.settled()
        assert rig.statuses() == {299: 1}


async def test_a_request_id_is_made():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        ids = {(await rig.exchange(post()))[0].partition(b"x-request-id: ")[2][:32] for _ in range(3)}
        assert len(ids) == 3
        assert all(len(bytes.fromhex(name.decode())) == 16 for name in ids)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_request_in_pieces(size):
    """It does not matter how TCP has cut a request, chunked framing and trailers included."""
    chunked = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5;a=b\r\n" + CHAT[:5] + b"\r\n%x\r\n" % (len(CHAT) - 5) + CHAT[5:] + b"\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    bodies = []

    async def script(side: WorkerSide) -> None:
        while True:
            head, body = await side.request()
            assert b"trailer" not in head.lower()
            assert b"transfer-encoding" not in head.lower()
            bodies.append(body)
            await side.send(OK)

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        for request in (post(), chunked):
            for start in range(0, len(request), size):
                await client.send(request[start : start + size])
                if size == 7:
                    await asyncio.sleep(0)
            assert (await client.answer())[1] == b'{"ok":true}'
        assert bodies == [CHAT, CHAT]


async def test_a_body_in_tiny_chunks_takes_no_more_memory_than_a_few_times_its_size():
    wanted = b'{"prompt":"%b"}' % (b"0123456789" * 20_000)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    pairs = [wanted[start : start + 2] for start in range(0, len(wanted), 2)]
    data = head + b"".join(b"%x\r\n%b\r\n" % (len(pair), pair) for pair in pairs) + b"0\r\n\r\n"
    del pairs
    bodies = []

    async def script(side: WorkerSide) -> None:
        bodies.append((await side.request())[1])
        await side.send(OK)
        await side.gone()

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        tracemalloc.start()
        try:
            await client.send(data)
            assert (await client.answer())[1] == b'{"ok":true}'
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert bodies == [wanted]
        assert peak < 10 * len(wanted)


async def test_pipelined_requests_are_answered_in_order():
    """Inference and control requests mixed, in one write; the connection stays usable."""

    async def script(side: WorkerSide) -> None:
        while True:
            _, body = await side.request()
            await asyncio.sleep(0.01)
            await side.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        one, two = b'{"prompt":"1"}', b'{"prompt":"2"}'
        get = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        pipelined = get + post(body=one) + get + post(b"/register", b"abc") + post(body=two)
        for _ in range(2):
            await client.send(pipelined + pipelined[:100])
            await asyncio.sleep(0.002)
            await client.send(pipelined[100:])
            for _ in range(2):
                answers = [(await client.answer())[1] for _ in range(5)]
                assert answers == [b"control /health 0", one, b"control /health 0", b"control /register 3", two]


async def test_pipelining_beyond_the_bound_closes_after_the_last_answer():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post(b"/tokenize", b"{}") * 300)
        answers = (await client.rest()).count(b"HTTP/1.1 200 OK")
        assert 100 < answers < 200


async def test_more_early_bytes_than_are_held_wait_in_the_socket():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        large = b'{"prompt":"' + b"x" * 1_000_000 + b'"}'
        await client.send(post())
        await client.send(post(b"/v1/completions", large) + post())
        for _ in range(3):
            assert (await client.answer())[1] == b'{"ok":true}'


@pytest.mark.parametrize("encoding", ["length", "chunks"])
async def test_the_bytes_of_a_body_do_not_count_for_the_head_behind_it(encoding):
    body = b'{"prompt":"' + b"x" * 70_000 + b'"}'
    if encoding == "length":
        long = post(b"/v1/completions", body)
    else:
        long = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        long += b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    begun, release = asyncio.Event(), asyncio.Event()

    async def script(side: WorkerSide) -> None:
        await side.request()
        begun.set()
        await release.wait()
        await side.send(OK)
        await answer_ok(side)

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        await client.send(post())
        await begun.wait()
        await client.send(long + post()[:40])
        await asyncio.sleep(0.02)
        release.set()
        for _ in range(2):
            assert (await client.answer())[1] == b'{"ok":true}'
        await asyncio.sleep(0.02)
        await client.send(post()[40:])
        assert (await client.answer())[1] == b'{"ok":true}'
        await client.send(b"POST /v1/completions HTTP/1.1\r\nX: " + b"x" * 70_000)
        assert (await client.error())[0] == 431


async def test_expect_continue_is_answered_when_the_body_is_wanted():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        request = post(headers=[b"Expect: 100-continue"])
        await client.send(request[: -len(CHAT)])
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(CHAT)
        assert (await client.answer())[1] == b'{"ok":true}'


async def test_too_large_a_body_is_refused_before_it_is_sent():
    async with running_gateway(server=ServerConfig(max_body_bytes=100)) as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n"
        )
        head, _ = await client.answer()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close\r\n" in head
        assert await client.rest() == b""
        await rig.settled()
        assert rig.statuses() == {413: 1}


async def test_a_client_that_sends_on_can_still_read_the_refusal():
    async with running_gateway(server=ServerConfig(max_body_bytes=100_000)) as rig:
        client = await rig.client()
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
        for _ in range(50):
            await client.send(chunk)
        status, error = await client.error()
        assert status == 413
        assert error["message"] == "Invalid request body: larger than 100000 bytes"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\nHost: x\n\n", 400),
        (b"POST /v1/completions\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"POST v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST ftp://x/v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (post(headers=[b"Host: other"]), 400),
        (post(headers=[b"Host: other"], version=b"1.0"), 400),
        (post(b"/register", headers=[b"host: router"]), 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (post(headers=[b"Transfer-Encoding: chunked"]), 400),
        (post(headers=[b"X : y"]), 400),
        (post(headers=[b"X: a\0b"]), 400),
        (post(headers=[b"X: a\rb"]), 400),
        (post(headers=[b"Content-Length: 2"]), 400),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /register HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000, 431),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 257 + b"\r\n", 431),
        (b"POST /v1/completions?" + b"x" * 17_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"POST /v1/completions?" + b"x" * 70_000, 414),
    ],
)
async def test_what_is_no_request_is_answered_and_closed(data, status):
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(data)
        got, error = await client.error()
        assert (got, error["type"]) == (status, "invalid_request_error")
        assert await client.rest() == b""


async def test_garbage_behind_a_request_waits_for_its_answer():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post() + b"garbage\r\n\r\n")
        assert (await client.answer())[1] == b'{"ok":true}'
        assert (await client.error())[0] == 400
        assert await client.rest() == b""


@pytest.mark.parametrize("target", [b"http://router/v1/completions?x=1", b"HTTPS://router:1/v1/completions?x=1"])
async def test_absolute_form_counts_by_its_path(target):
    heads = []

    async def script(side: WorkerSide) -> None:
        heads.append((await side.request())[0])
        await side.send(OK)
        await side.gone()

    async with running_gateway() as rig:
        await rig.worker(script)
        assert (await rig.exchange(post(target)))[0].startswith(b"HTTP/1.1 200 ")
        assert heads[0].startswith(b"POST /v1/completions?x=1 HTTP/1.1\r\n")
        assert (await rig.exchange(b"GET http://router HTTP/1.1\r\nHost: x\r\n\r\n"))[1] == b"control / 0"


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/register"])
async def test_an_upgrade_is_ignored(path):
    """As curl --http2 asks for it: the request is served as it is, body included."""
    heads = []

    async def script(side: WorkerSide) -> None:
        while True:
            heads.append((await side.request())[0])
            await side.send(OK)

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        request = post(path, headers=[b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM"])
        await client.send(request + request)
        for _ in range(2):
            head, body = await client.answer()
            assert head.startswith(b"HTTP/1.1 200 ")
            assert body == (b'{"ok":true}' if path != b"/register" else b"control /register %d" % len(CHAT))
        assert all(b"http2-settings" not in head.lower() and b"upgrade" not in head.lower() for head in heads)


async def test_http_1_0_gets_a_body_that_ends_with_the_connection():
    sse = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with running_gateway() as rig:
        await rig.worker(answer(sse, b"3\r\nabc\r\n", b"e\r\n\ndata: [DONE]\n\r\n0\r\nX-Trailer: 1\r\n\r\n"))
        client = await rig.client()
        await client.send(post(version=b"1.0", headers=[b"Connection: keep-alive"]))
        head = await client.head()
        assert b"transfer-encoding" not in head
        assert b"connection: close\r\n" in head
        assert await client.rest() == b"abc\ndata: [DONE]\n"


async def test_connection_close_is_kept():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post(headers=[b"Connection: close"]) + post())
        assert b"connection: close\r\n" in await client.head()
        assert await client.rest() == b'{"ok":true}'


@pytest.mark.parametrize("leave", [Client.close, Client.reset, lambda client: client.writer.write_eof()])
@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
async def test_a_client_that_leaves_ends_the_request_upstream(leave, answered):
    """Closed, reset or only half closed: the worker's connection ends, the lease is back, and 499 is counted."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def script(side: WorkerSide) -> None:
        await side.request()
        await side.send(answered)
        asked.set()
        await side.gone()
        ended.set()

    async with running_gateway() as rig:
        await rig.worker(script)
        client = await rig.client()
        await client.send(post())
        await asked.wait()
        if answered:
            await client.head()
        leave(client)
        async with asyncio.timeout(1):
            await ended.wait()
        await rig.settled()
        assert rig.statuses() == {499: 1}


async def test_a_client_that_leaves_while_it_sends_leaves_nothing_behind():
    async with running_gateway() as rig:
        await rig.worker(answer_ok)
        client = await rig.client()
        await client.send(post()[:-5])
        client.reset()
        await rig.settled()
        assert rig.statuses() == {}


async def test_shutdown_lets_the_answer_under_way_end():
    release = asyncio.Event()

    async def script(side: WorkerSide) -> None:
        await side.request()
        await release.wait()
        await side.send(OK)
        await side.gone()

    async with running_gateway() as rig:
        await rig.worker(script)
        busy, idle, control = await rig.client(), await rig.client(), await rig.client()
        await busy.send(post())
        await control.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await control.answer()
        await asyncio.sleep(0.02)
        for connection in list(rig.state.connections):
            connection.shutdown()
        assert await idle.rest() == b""
        assert await control.rest() == b""
        release.set()
        assert b"connection: close\r\n" in await busy.head()
        assert await busy.rest() == b'{"ok":true}'


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/register"])
async def test_shutdown_does_not_wait_for_a_half_sent_request(path):
    async with running_gateway() as rig:
        client = await rig.client()
        await client.send(post(path)[:-5])
        await asyncio.sleep(0.02)
        for connection in list(rig.state.connections):
            connection.shutdown()
        status, error = await client.error()
        assert (status, error["message"]) == (503, "The router is shutting down")
        assert await client.rest() == b""


async def test_a_client_that_reads_nothing_any_more_is_reset():
    """The lease and the engine's slot are given back; one that only reads slowly keeps them."""
    ended = asyncio.Event()

    async def script(side: WorkerSide) -> None:
        await side.request()
        await side.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                await side.send(b"x" * 65536)
        ended.set()

    async with running_gateway(server=ServerConfig(client_idle_timeout=0.3)) as rig:
        await rig.worker(script)
        client = await rig.client()
        await client.send(post())
        loop = asyncio.get_running_loop()
        slow_until = loop.time() + 1
        while loop.time() < slow_until:
            await client.reader.readexactly(400_000)
            await asyncio.sleep(0.02)
        assert not ended.is_set()
        client.writer.transport.pause_reading()
        async with asyncio.timeout(3):
            await ended.wait()
        await rig.settled()
        assert rig.statuses() == {499: 1}


async def test_a_vanished_client_is_looked_for():
    async with running_gateway() as rig:
        await rig.client()
        await asyncio.sleep(0.02)
        (connection,) = rig.state.connections
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_an_idle_client_is_closed_and_a_slow_one_told():
    async with running_gateway(server=ServerConfig(client_idle_timeout=0.1)) as rig:
        await rig.worker(answer_ok)
        silent, kept, slow = await rig.client(), await rig.client(), await rig.client()
        await kept.send(post())
        await kept.answer()
        await slow.send(post()[:-5])
        assert await silent.rest() == b""
        assert await kept.rest() == b""
        assert (await slow.error())[0] == 408


async def test_a_waiting_client_is_not_idle():
    async def script(side: WorkerSide) -> None:
        await side.request()
        await asyncio.sleep(0.3)
        await side.send(OK)

    async with running_gateway(server=ServerConfig(client_idle_timeout=0.1)) as rig:
        await rig.worker(script)
        assert (await rig.exchange(post()))[1] == b'{"ok":true}'


async def test_a_control_request_is_bounded_too():
    async with running_gateway(server=ServerConfig(max_body_bytes=1000)) as rig:
        client = await rig.client()
        await client.send(post(b"/register", b"x" * 1001))
        assert (await client.error())[0] == 413


async def test_cors_lines_are_added_for_allowed_origins():
    upstream = b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n\r\n"
    async with running_gateway(server=ServerConfig(cors_allowed_origins=("https://a",))) as rig:
        await rig.worker(answer(upstream))
        allowed, _ = await rig.exchange(post(headers=[b"Origin: https://a"]))
        refused, _ = await rig.exchange(post(headers=[b"Origin: https://b"]))
        broken, _ = await rig.exchange(post(body=b"{", headers=[b"Origin: https://a"]))
        assert allowed.lower().count(b"access-control-allow-origin: https://a\r\n") == 1
        assert b"access-control" not in refused.lower()
        assert broken.startswith(b"HTTP/1.1 400 ")
        assert b"access-control-allow-origin: https://a\r\n" in broken.lower()
