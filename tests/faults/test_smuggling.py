"""Requests that two parsers could read in two ways, and engines that would write the router's headers.

Each attempt at smuggling holds a second request. It must be refused, or the worker must get exactly one clean request,
and never the hidden one. RFC 9112, sections 2.2, 3, 5.2, 6 and 11.2.
"""

import h11
import pytest
import pytest_asyncio
from tests.support.http_client import Client, post
from tests.support.router import assert_nothing_held, router_over
from tests.support.scripted_worker import ScriptedWorker, answering, response, then_closing

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = post("/v1/completions?hidden")
BODY = b'{"a":1}'
LINE = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"


def framed(fields: bytes, rest: bytes = b"") -> bytes:
    return LINE + fields + b"\r\n\r\n" + rest + HIDDEN


CHUNKED = b"7\r\n" + BODY + b"\r\n0\r\n\r\n"
REFUSED = {
    "length and chunked": framed(b"Content-Length: 4\r\nTransfer-Encoding: chunked", CHUNKED),
    "chunked and length": framed(b"Transfer-Encoding: chunked\r\nContent-Length: 4", CHUNKED),
    "two lengths": framed(b"Content-Length: 7\r\nContent-Length: 0", BODY),
    "a list of lengths": framed(b"Content-Length: 7, 7", BODY),
    "a signed length": framed(b"Content-Length: +7", BODY),
    "a length in hexadecimal": framed(b"Content-Length: 0x7", BODY),
    "a length with a blank": framed(b"Content-Length: 1 7", BODY),
    "chunked twice": framed(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", CHUNKED),
    "chunked, then something": framed(b"Transfer-Encoding: chunked, identity", CHUNKED),
    "something like chunked": framed(b"Transfer-Encoding: xchunked", CHUNKED),
    "chunked behind a vertical tab": framed(b"Transfer-Encoding: \x0bchunked", CHUNKED),
    "a blank before the colon": framed(b"Transfer-Encoding : chunked", CHUNKED),
    "a folded coding": framed(b"Transfer-Encoding:\r\n chunked", CHUNKED),
    "a folded field": framed(b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 7", BODY),
    "a field that begins with a blank": framed(b" Content-Length: 7", BODY),
    "a bare CR in a value": framed(b"X: a\rContent-Length: 7\r\nContent-Length: 7", BODY),
    "a NUL in a value": framed(b"X: a\x00b\r\nContent-Length: 7", BODY),
    "a NUL in a name": framed(b"X\x00: a\r\nContent-Length: 7", BODY),
    "chunked in HTTP/1.0": framed(b"Transfer-Encoding: chunked\r\nContent-Length: 7", CHUNKED).replace(
        b"/1.1", b"/1.0", 1
    ),
    "a chunk size that wraps": framed(
        b"Transfer-Encoding: chunked", b"10000000000000007\r\n" + BODY + b"\r\n0\r\n\r\n"
    ),
    "a signed chunk size": framed(b"Transfer-Encoding: chunked", b"+7\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk size with a prefix": framed(b"Transfer-Encoding: chunked", b"0x7\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk that ends with LF": framed(b"Transfer-Encoding: chunked", b"7\r\n" + BODY + b"\n0\r\n\r\n"),
    "a chunk size that ends with CR": framed(b"Transfer-Encoding: chunked", b"7\r" + BODY + b"\r\n0\r\n\r\n"),
    "two hosts": framed(b"Host: b\r\nContent-Length: 7", BODY),
    "HTTP/0.9": b"POST /v1/completions\r\n\r\n" + HIDDEN,
    "a newer version": framed(b"Content-Length: 7", BODY).replace(b"/1.1", b"/1.2", 1),
    "a tab in the request line": framed(b"Content-Length: 7", BODY).replace(b"POST ", b"POST\t", 1),
}
ONE_CLEAN_REQUEST = {
    "a length that Connection names": b"Connection: content-length\r\nContent-Length: 7",
    "a host that Connection names": b"Connection: host, close\r\nContent-Length: 7",
    "a coding that Connection names": b"Connection: transfer-encoding\r\nContent-Length: 7",
    "fields that Connection names": b"Connection: X-Secret, x-other\r\nX-Secret: 1\r\nX-Other: 2\r\nContent-Length: 7",
    "an upgrade": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\nContent-Length: 7",
    "trailers that are announced": b"TE: trailers\r\nTrailer: X-Secret\r\nContent-Length: 7",
    "a proxy's fields": b"Proxy-Connection: close\r\nProxy-Authorization: x\r\nKeep-Alive: 5\r\nContent-Length: 7",
    "an underscore": b"Content_Length: 99\r\nTransfer_Encoding: chunked\r\nContent-Length: 7",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with ScriptedWorker() as worker, router_over(worker) as router:
        yield worker, router


async def ask_raw(port: int, data: bytes) -> bytes:
    async with await Client.connect(port) as client:
        await client.send(data)
        client.end_sending()
        return await client.read_to_end()


def is_clean(request) -> bool:
    """Whether a strict parser reads one request in it, with one length and nothing of one connection."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(request.raw_head + request.body)
    event = reader.next_event()
    names = [name for name, _ in event.headers]
    own = {b"connection", b"transfer-encoding", b"upgrade", b"te", b"trailer", b"keep-alive", b"proxy-authorization"}
    return names.count(b"content-length") == names.count(b"host") == 1 and not own & set(names)


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused(shared, data):
    worker, router = shared
    worker.forget()
    async with await Client.connect(router.port) as client:
        await client.send(data)
        answer = await client.read_response()
        assert answer.status == 400
        assert answer.error
        client.end_sending()
        assert await client.read_to_end() == b"", "the connection is closed behind it"
    assert worker.requests == []
    await assert_nothing_held(router)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_a_bare_lf_hides_nothing(shared, end):
    """RFC 9112, section 2.2 lets a recipient take it for the end of a line; a strict one refuses it."""
    worker, router = shared
    worker.forget()
    data = b"POST /v1/completions HTTP/1.1\nHost: a" + end + b"Content-Length: 7" + end + end + BODY
    received = await ask_raw(router.port, data + HIDDEN)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert worker.requests == []


@pytest.mark.parametrize("fields", ONE_CLEAN_REQUEST.values(), ids=ONE_CLEAN_REQUEST)
async def test_what_belongs_to_one_connection_stays_behind(shared, fields):
    worker, router = shared
    worker.forget()
    async with await Client.connect(router.port) as client:
        assert (await client.ask(LINE + fields + b"\r\n\r\n" + BODY)).status == 200
    (request,) = worker.requests
    assert request.body == BODY
    assert is_clean(request)
    assert not {b"x-secret", b"x-other", b"http2-settings"} & {name.lower() for name, _ in request.headers}
    assert request.values(b"host") == [b"127.0.0.1:%d" % worker.port]


async def test_an_absolute_target_does_not_choose_the_host(shared):
    worker, router = shared
    worker.forget()
    data = post("/v1/completions", BODY).replace(b"POST /v1", b"POST http://elsewhere.example:1/v1", 1)
    async with await Client.connect(router.port) as client:
        assert (await client.ask(data)).status == 200
    (request,) = worker.requests
    assert request.target == b"/v1/completions"
    assert request.values(b"host") == [b"127.0.0.1:%d" % worker.port]


def engine(fields: bytes, reason: bytes = b"OK", body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 200 " + reason + b"\r\n" + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


HOSTILE = {
    "a CR in a value": engine(b"X: a\rSet-Cookie: evil=1\r\n"),
    "an LF in a value": engine(b"X: a\nSet-Cookie: evil=1\r\n"),
    "a NUL in a value": engine(b"X: a\x00Set-Cookie: evil=1\r\n"),
    "a folded value": engine(b"X: a\r\n Set-Cookie: evil=1\r\n"),
    "a CR in the reason": engine(b"", b"O\rSet-Cookie: evil=1"),
    "a blank in a name": engine(b"X Set-Cookie: evil=1\r\n"),
    "a colon first": engine(b": evil=1\r\n"),
    "length and chunked": engine(
        b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\nHTTP/1.1 200 OK\r\nX: evil=1\r\n\r\n"
    ),
    "two answers": engine(b"") + engine(b"X: evil=1\r\n"),
    "an interim answer with a body": b"HTTP/1.1 103 Early\r\nContent-Length: 30\r\n\r\n" + engine(b"X: evil=1\r\n"),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
async def test_an_engine_cannot_write_headers_of_the_router(shared, data):
    """The client gets one answer, with one length and the router's own fields once, or 502."""
    worker, router = shared
    worker.forget()
    worker.script = then_closing(data)
    received = await ask_raw_answer(router.port)
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(received)
    answer = reader.next_event()
    assert isinstance(answer, h11.Response)
    assert answer.status_code in (200, 502)
    names = [name for name, _ in answer.headers]
    assert names.count(b"x-request-id") == names.count(b"x-router-worker-url") == 1
    assert b"set-cookie" not in names
    if answer.status_code == 200:
        assert b"evil" not in received
    assert received.count(b"HTTP/1.1 ") == 1


async def ask_raw_answer(port: int) -> bytes:
    """Everything that comes back for one request, after which the router is to close."""
    async with await Client.connect(port) as client:
        await client.send(post(headers=[(b"Connection", b"close"), (b"X-Request-Id", b"mine")]))
        return await client.read_to_end()


async def test_an_engine_cannot_replace_the_routers_own_fields(shared):
    worker, router = shared
    worker.forget()
    own = [(b"X-Request-Id", b"evil"), (b"X-Router-Worker-URL", b"evil"), (b"Connection", b"x-request-id")]
    worker.script = answering(response(b"{}", headers=own))
    async with await Client.connect(router.port) as client:
        answer = await client.ask(post(headers=[(b"X-Request-Id", b"mine")]))
    assert answer.value(b"x-request-id") == b"mine"
    assert answer.value(b"x-router-worker-url") == worker.url.encode()
