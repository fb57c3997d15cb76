"""Requests that two parsers could read in two ways, and answers that try to write lines of their own.

A smuggled request is one that a worker sees and no client has openly sent: none may ever reach it.
"""

import asyncio

import pytest
from tests.support.http_client import Client, ask, post
from tests.support.scripted_worker import then_closing

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMUGGLED = b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(SMUGGLED)

REFUSED = {
    "bare LF ends a field": HEAD.replace(b"Host: a\r\n", b"Host: a\nX: y\r\n") + LENGTH + b"\r\n" + SMUGGLED,
    "bare LF ends the head": HEAD + LENGTH + b"\n" + SMUGGLED,
    "bare CR in a value": HEAD + b"X: a\rContent-Length: 0\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "folded line": HEAD + b"X: a\r\n folded\r\n" + LENGTH + b"\r\n" + SMUGGLED,
    "folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH + b"\r\n0\r\n\r\n" + SMUGGLED,
    "coding with a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding in quotes": HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n' + SMUGGLED,
    "coding twice": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked is not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding with a vertical tab": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two equal lengths in two fields": HEAD + LENGTH + LENGTH + b"\r\n" + SMUGGLED,
    "two lengths in one field": HEAD + b"Content-Length: 2, 2\r\n\r\n{}" + SMUGGLED,
    "length with a sign": HEAD + b"Content-Length: +2\r\n\r\n{}" + SMUGGLED,
    "length with a space inside": HEAD + b"Content-Length: 1 2\r\n\r\n{}" + SMUGGLED,
    "length and coding": HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding in HTTP/1.0 beside a length": HEAD.replace(b"1.1", b"1.0")
    + LENGTH
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "chunk size with a sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk size in 0x": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk size beyond 64 bits": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"
    + SMUGGLED,
    "chunk size ended by a bare LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "chunk ended by a bare LF": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n" + SMUGGLED,
    "two hosts": HEAD + b"Host: b\r\n" + LENGTH + b"\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
async def test_what_can_be_read_in_two_ways_is_refused(router, worker, data):
    async with await Client.connect(router.port) as client:
        await client.send(data)
        client.end_sending()
        received = await client.read_to_end()
    assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert received.count(b"HTTP/1.1 ") <= 1
    assert worker.requests == []


CLEAN = {
    "chunk extension": HEAD + b'Transfer-Encoding: chunked\r\n\r\n2;x="y"\r\n{}\r\n0\r\n\r\n',
    "a trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
    "absolute target with another host": b"POST http://evil.example/v1/completions HTTP/1.1\r\nHost: a\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    "fields that Connection names": HEAD + b"Connection: x-secret, content-length, host\r\nX-Secret: 1\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    "an upgrade": HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nContent-Length: 2\r\n\r\n{}",
    "proxy credentials": HEAD + b"Proxy-Authorization: Basic x\r\nTE: trailers\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("data", CLEAN.values(), ids=CLEAN)
async def test_what_is_passed_on_is_framed_anew_and_says_one_thing(router, worker, data):
    async with await Client.connect(router.port) as client:
        assert (await client.ask(data)).status == 200
    (request,) = worker.requests
    assert request.line == b"POST /v1/completions HTTP/1.1"
    assert request.body == b"{}"
    assert request.values(b"content-length") == [b"2"]
    assert request.values(b"host") == [worker.url.removeprefix("http://").encode()]
    for name in (
        b"transfer-encoding",
        b"connection",
        b"upgrade",
        b"x-secret",
        b"te",
        b"trailer",
        b"proxy-authorization",
    ):
        assert request.values(name) == [], name


INJECTIONS = {
    "bare LF in a value": b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "bare CR in a value": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "folded line": b"HTTP/1.1 200 OK\r\nX: a\r\n Set-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a value": b"HTTP/1.1 200 OK\r\nX: a\x00Set-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "CR in the reason": b"HTTP/1.1 200 OK\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\n{}",
    "length and coding": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nSet-Cookie: evil=1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}\nSet-Cookie: evil=1",
    "a second answer": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nSet-Cookie: evil=1\r\n\r\n",
}


@pytest.mark.parametrize("data", INJECTIONS.values(), ids=INJECTIONS)
async def test_an_engine_writes_no_line_of_its_own_into_an_answer(router, worker, data):
    worker.script = then_closing(data)
    answer = await ask(router.port, post())
    assert answer.values(b"set-cookie") == []
    assert b"evil" not in answer.raw_head.replace(b"\r\n ", b"")
    assert answer.status in (200, 502)
    worker.script = then_closing(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
    answers = await asyncio.gather(*(ask(router.port, post()) for _ in range(3)))
    assert [answer.body for answer in answers] == [b"[]"] * 3
