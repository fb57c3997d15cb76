"""What the worker of each row does, as scripts. A script for `stream` answers with an event stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.pd import EVENTS, JSON_BODY
from tests.support.scripted_worker import (
    LAST_CHUNK,
    SSE_HEAD,
    Hanging,
    Script,
    answering,
    chunk,
    head,
    response,
    then_closing,
    then_resetting,
)

JSON_TYPE = (b"Content-Type", b"application/json")
SSE_TYPE = (b"Content-Type", b"text/event-stream")
ERROR_BODY = b'{"error":{"message":"of the engine"}}'
QUEUE_FULL = b'{"error":{"message":"The request queue is full."}}'
_BIG = 1000


def good(*, stream: bool) -> bytes:
    """A whole, good answer."""
    return SSE_HEAD + b"".join(map(chunk, EVENTS)) + LAST_CHUNK if stream else response(JSON_BODY)


def _head(*, stream: bool) -> bytes:
    return SSE_HEAD if stream else head(b"200 OK", [JSON_TYPE, (b"Content-Length", b"%d" % _BIG)])


def part(*, stream: bool) -> bytes:
    """What comes of a body before it breaks."""
    return EVENTS[0] if stream else b'{"half":'


def _begun(*, stream: bool) -> bytes:
    return _head(stream=stream) + (chunk(part(stream=True)) if stream else part(stream=False))


def _error(status: int, body: bytes = ERROR_BODY) -> Callable[[bool], Script]:
    data = response(body, b"%d Its Reason" % status, [JSON_TYPE, (b"X-Engine", b"yes")])
    return lambda _: answering(data)


def _bad_chunk(stream: bool) -> Script:
    begin = SSE_HEAD if stream else head(b"200 OK", [JSON_TYPE, (b"Transfer-Encoding", b"chunked")])
    return then_closing(begin + chunk(part(stream=stream)) + b"zz\r\n")


def _trailers(stream: bool) -> Script:
    begin = SSE_HEAD if stream else head(b"200 OK", [JSON_TYPE, (b"Transfer-Encoding", b"chunked")])
    body = EVENTS if stream else [JSON_BODY]
    return answering(begin + b"".join(map(chunk, body)) + b"0\r\nX-Trailer: 1\r\n\r\n")


def _until_close(version: bytes) -> Callable[[bool], Script]:
    def script(stream: bool) -> Script:
        fields = [SSE_TYPE if stream else JSON_TYPE, (b"Connection", b"close")]
        begin = head(b"200 OK", fields).replace(b"HTTP/1.1", version)
        return then_closing(begin + (b"".join(EVENTS) if stream else JSON_BODY))

    return script


BY_NAME: dict[str, Callable[[bool], Script]] = {
    "resets when it has the request": lambda _: then_resetting(),
    "closes when it has the request": lambda _: then_closing(b""),
    "answers nothing": lambda _: Hanging(),
    "stops inside the head": lambda _: Hanging(b"HTTP/1.1 200 OK\r\nContent-"),
    "stops behind the head": lambda stream: Hanging(_head(stream=stream)),
    "closes inside the head": lambda _: then_closing(b"HTTP/1.1 200 OK\r\nContent-"),
    "closes behind the head": lambda stream: then_closing(_head(stream=stream)),
    "sends a bad status line": lambda _: answering(b"HTTP/one 200 OK\r\n\r\n"),
    "sends headers without end": lambda _: answering(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000),
    "sends too large a head": lambda _: answering(
        b"HTTP/1.1 200 OK\r\n" + b"X: %b\r\n" % (b"x" * 1000) * 1000 + b"\r\n"
    ),
    "sends two lengths": lambda _: answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "switches protocols": lambda _: answering(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
    ),
    "answers 503 for a full queue": _error(503, QUEUE_FULL),
    "stops inside an error": lambda _: Hanging(head(b"500 Oops", [JSON_TYPE, (b"Content-Length", b"99")]) + b"{"),
    "closes inside the body": lambda stream: then_closing(_begun(stream=stream)),
    "resets inside the body": lambda stream: then_resetting(_begun(stream=stream)),
    "stops inside the body": lambda stream: Hanging(_begun(stream=stream)),
    "sends less than it declared": lambda stream: then_closing(
        SSE_HEAD + b"ff\r\n" + part(stream=True) if stream else _begun(stream=False)
    ),
    "sends a bad chunk": _bad_chunk,
    "ends a stream without [DONE]": lambda _: answering(SSE_HEAD + chunk(EVENTS[0]) + LAST_CHUNK),
    "sends more than it declared": lambda stream: answering(good(stream=stream) + b"HTTP/1.1 200 OK\r\n"),
    "sends 100 Continue first": lambda stream: answering(b"HTTP/1.1 100 Continue\r\n\r\n" + good(stream=stream)),
    "sends 103 Early Hints first": lambda stream: answering(
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + good(stream=stream)
    ),
    "sends trailers": _trailers,
    "says Connection: close": _until_close(b"HTTP/1.1"),
    "speaks HTTP/1.0": _until_close(b"HTTP/1.0"),
} | {f"answers {status}": _error(status) for status in (400, 401, 404, 422, 429, 500, 502, 503, 504)}


async def reset_at_once(connection):
    """Before the request is read."""
    await connection.reset()


async def close_at_once(connection):
    """Before the request is read."""
    await connection.close()


def answer_early(*, stream: bool):
    """The whole answer, when only the head of the request has been read."""

    async def on_connect(connection):
        """Returns False for a probe."""
        raw_head = await connection.reader.readuntil(b"\r\n\r\n")
        if raw_head.startswith(b"GET "):
            await connection.send(response(b"{}"))
            return False
        await connection.send(good(stream=stream))
        await asyncio.sleep(0.2)
        await connection.close()
        return True

    return on_connect
