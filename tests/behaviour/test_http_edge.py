"""HTTP/1.x in all the forms that clients send it, well and badly."""

import asyncio

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, ask, post
from tests.support.router import eventually, router_over
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, Hanging, answering, chunk, head, response, streaming

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = b'{"model":"m","messages":[]}'
CHUNKED_ANSWER = head(b"200 OK", [(b"Transfer-Encoding", b"chunked")]) + chunk(BODY) + LAST_CHUNK
CHUNKED_HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


async def echo(request, connection):
    await connection.send(response(request.body))


async def test_a_chunked_body_goes_upstream_whole(router, worker):
    """De-chunked or not, the content is the same bytes and its framing is valid."""
    async with await Client.connect(router.port) as client:
        data = CHUNKED_HEAD + b"5;ext=1\r\n" + BODY[:5] + b"\r\n" + chunk(BODY[5:]) + b"0\r\nX-Trailer: 1\r\n\r\n"
        assert (await client.ask(data)).status == 200
        assert (await client.ask(post())).status == 200
    assert worker.requests[0].body == BODY
    framing = worker.requests[0].values(b"content-length") + worker.requests[0].values(b"transfer-encoding")
    assert len(framing) == 1
    assert not worker.requests[0].values(b"x-trailer")


@pytest.mark.parametrize(
    "whole", [post(body=BODY), CHUNKED_HEAD + chunk(BODY) + b"0\r\n\r\n"], ids=["length", "chunked"]
)
async def test_a_request_cut_anywhere_is_the_same_request(router, worker, whole):
    async with await Client.connect(router.port) as client:
        for position in range(len(whole)):
            await client.send(whole[position : position + 1])
            await asyncio.sleep(0)
        assert (await client.read_response()).status == 200
    assert worker.requests[0].body == BODY


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 27\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 27",
        b"Content-Length: 27\r\nContent-Length: 28",
        b"Content-Length: -1",
        b"Content-Length: 1e3",
        b"Content-Length: 0x1b",
        b"Content-Length: 99999999999999999999999",
        b"Content-Length: ",
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: chunked, gzip",
        b"Transfer-Encoding: xchunked",
    ],
)
async def test_ambiguous_framing_is_refused_and_the_connection_closed(router, worker, framing):
    """What two parsers could read in two ways is how requests are smuggled."""
    async with await Client.connect(router.port) as client:
        await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n")
        await client.send(chunk(BODY) + b"0\r\n\r\n" + post())
        answer = await client.read_response()
        assert answer.status in (400, 413, 501)
        assert answer.error
        client.end_sending()
        assert await client.read_to_end() == b""
    assert worker.requests == []


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("size", [70_000, 1_000_000])
async def test_huge_headers_are_refused(router, worker, version, size):
    async with await Client.connect(router.port) as client:
        await client.send(post(headers=[(b"X-Huge", b"x" * size)], version=version))
        answer = await client.read_response()
        assert answer.status in (400, 431)
        assert answer.error
    assert worker.requests == []


@pytest.mark.parametrize("endless", [b"X-%d: x\r\n", b"x%d"], ids=["many headers", "one endless header"])
async def test_headers_without_end_are_refused(router, worker, endless):
    async with await Client.connect(router.port) as client:
        await client.send(b"POST /v1/completions HTTP/1.1\r\n")
        for number in range(1000):
            await client.send(b"".join(endless % (number * 100 + index) for index in range(100)))
        answer = await client.read_response()
        assert answer.status in (400, 431)
        assert answer.error


async def test_a_huge_target_is_refused(router, worker):
    async with await Client.connect(router.port) as client:
        await client.send(post(CHAT + "?" + "x" * 100_000))
        answer = await client.read_response()
        assert answer.status in (400, 414, 431)
        assert answer.error
    assert worker.requests == []


GARBAGE = {
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "text": b"hello there\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"POST /v1/completions\r\n\r\n",
    "unknown version": b"POST /v1/completions HTTP/3.0\r\nContent-Length: 2\r\n\r\n{}",
    "space in a name": b"POST /v1/completions HTTP/1.1\r\nBad Name: x\r\nContent-Length: 2\r\n\r\n{}",
    "space before the colon": b"POST /v1/completions HTTP/1.1\r\nContent-Length : 2\r\n\r\n{}",
    "NUL in a value": b"POST /v1/completions HTTP/1.1\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "bad chunk size": CHUNKED_HEAD + b"xyz\r\n{}\r\n0\r\n\r\n",
    "chunk longer than told": CHUNKED_HEAD + b"2\r\n{}{}\r\n0\r\n\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
    "zeros": b"\x00" * 5000,
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_refused_or_closed(router, worker, data):
    async with await Client.connect(router.port) as client:
        await client.send(data)
        client.end_sending()
        received = await client.read_to_end()
    assert received == b"" or received.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert b"Traceback" not in received
    assert worker.requests == []
    assert (await ask(router.port, post())).status == 200


@pytest.mark.parametrize("data", list(GARBAGE.values())[:-1], ids=list(GARBAGE)[:-1])
async def test_garbage_is_told_to_a_client_that_listens(router, data):
    async with await Client.connect(router.port) as client:
        await client.send(data)
        answer = await client.read_response()
        assert 400 <= answer.status < 600
        assert answer.error


@pytest.mark.parametrize("cut", [1, 10, 40, 100, -1])
async def test_a_truncated_request_holds_nothing(router, worker, cut):
    async with await Client.connect(router.port) as client:
        await client.send(post(body=BODY)[:cut])
        client.end_sending()
        assert (await client.read_to_end()).startswith((b"", b"HTTP/1.1 4"))
    assert worker.requests == []
    assert router.ledger.open_leases == 0


async def test_expect_100_continue_is_answered_first(router, worker):
    async with await Client.connect(router.port) as client:
        head, body = post(body=BODY, headers=[(b"Expect", b"100-continue")]).split(b"\r\n\r\n", 1)
        await client.send(head + b"\r\n\r\n")
        assert (await client.read_head()).status == 100
        await client.send(body)
        assert (await client.read_response()).status == 200
    assert worker.requests[0].body == BODY
    assert not worker.requests[0].values(b"expect")


async def test_expect_100_continue_may_be_refused_instead(lone_worker):
    async with router_over(lone_worker, server={"max_body_bytes": 10}) as router:
        async with await Client.connect(router.port) as client:
            await client.send(post(body=BODY, headers=[(b"Expect", b"100-continue")]).split(b"{")[0])
            assert (await client.read_response()).status == 413


async def test_pipelined_requests_are_answered_in_order(router, worker):
    async def script(request, connection):
        await asyncio.sleep(0.03 if request.body == b'{"n":0}' else 0)
        await echo(request, connection)

    worker.script = script
    async with await Client.connect(router.port) as client:
        bodies = [b'{"n":%d}' % number for number in range(6)]
        await client.send(b"".join(post(body=body) for body in bodies))
        assert [(await client.read_response()).body for _ in bodies] == bodies


async def test_pipelined_requests_mix_with_other_endpoints(router, worker):
    worker.script = echo
    health = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    missing = b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
    sent = [
        post(body=b'{"n":1}'),
        health,
        post(body=b'{"n":2}'),
        post(body=b"no json"),
        missing,
        health,
        post(body=b"{}"),
    ]
    for data in (b"".join(sent), b"".join(reversed(sent))):
        async with await Client.connect(router.port) as client:
            await client.send(data)
            statuses = [(await client.read_response()).status for _ in sent]
            expected = [200, 200, 200, 400, 404, 200, 200]
            assert statuses == (expected if data.startswith(sent[0]) else expected[::-1])


async def test_a_stream_and_the_request_behind_it(router, worker):
    worker.script = streaming([b"data: 1\n\n", b"data: [DONE]\n\n"])
    async with await Client.connect(router.port) as client:
        await client.send(post(body=b'{"stream":true}') + b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" + post())
        assert (await client.read_response()).body.endswith(b"[DONE]\n\n")
        assert (await client.read_response()).status == 200
        assert (await client.read_response()).status == 200


async def test_a_connection_is_kept_alive(router, worker):
    worker.script = echo
    async with await Client.connect(router.port) as client:
        for number in range(20):
            body = b'{"n":%d}' % number
            assert (await client.ask(post(body=body))).body == body


async def test_connection_close_is_obeyed(router):
    async with await Client.connect(router.port) as client:
        answer = await client.ask(post(headers=[(b"Connection", b"close")]))
        assert answer.status == 200
        assert answer.values(b"connection") == [b"close"]
        assert await client.read_to_end() == b""


@pytest.mark.parametrize("script", [answering(response(BODY)), answering(CHUNKED_ANSWER)], ids=["length", "chunked"])
async def test_an_http_1_0_client_gets_the_body_and_a_close(router, worker, script):
    worker.script = script
    async with await Client.connect(router.port) as client:
        answer = await client.ask(post(version=b"1.0"))
        assert answer.status == 200
        assert answer.body == BODY
        assert not answer.values(b"transfer-encoding")
        assert await client.read_to_end() == b""
    assert worker.requests[0].line.endswith(b" HTTP/1.1")


async def test_a_request_that_asks_for_another_protocol_is_served_in_this_one(router, worker):
    """An Upgrade (such as curl --http2 sends) may be ignored; the body must not get lost over it."""
    asking = [(b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"AAMAAABkAAQ")]
    assert (await ask(router.port, post(COMPLETIONS, BODY, asking))).status == 200
    assert worker.requests[0].body == BODY
    assert not worker.requests[0].values(b"upgrade")
    assert not worker.requests[0].values(b"http2-settings")


async def test_an_absolute_target_counts_by_its_path(router, worker):
    data = post().replace(b"POST /v1", b"POST http://router.example:80/v1", 1)
    assert (await ask(router.port, data)).status == 200
    assert worker.requests[0].target == CHAT.encode()


async def test_an_idle_connection_is_closed(lone_worker):
    async with router_over(lone_worker, server={"client_idle_timeout": 0.2}) as router:
        async with await Client.connect(router.port) as client:
            assert (await client.ask(post())).status == 200
            assert await client.read_to_end() == b""


async def test_a_body_that_stalls_is_408(lone_worker):
    async with router_over(lone_worker, server={"client_read_timeout": 0.2}) as router:
        async with await Client.connect(router.port) as client:
            await client.send(post(body=BODY)[:-5])
            answer = await client.read_response()
            assert answer.status == 408
            assert answer.error
            client.end_sending()
            assert await client.read_to_end() == b""
    assert lone_worker.requests == []


async def test_a_long_silence_of_the_engine_is_no_idleness(lone_worker):
    """The client waits for its answer for longer than an idle connection would be kept."""
    async with router_over(lone_worker, server={"client_idle_timeout": 0.2}) as router:

        async def script(_request, connection):
            await asyncio.sleep(0.6)
            await connection.send(response(b"late"))

        lone_worker.script = script
        assert (await ask(router.port, post())).body == b"late"


async def test_stopping_the_router_ends_what_is_under_way(lone_worker):
    lone_worker.script = hanging = Hanging(SSE_HEAD + chunk(b"data: 1\n\n"))
    async with router_over(lone_worker) as router:
        async with await Client.connect(router.port) as client:
            await client.send(post())
            await client.read_head()
            stopping = asyncio.create_task(router.stop())
            await asyncio.sleep(0.05)
            client.abort()
            await asyncio.wait_for(stopping, 5)
        await eventually(hanging.given_up.is_set, "the connection to the lone_worker is closed")
