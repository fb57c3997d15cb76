"""An engine that does exactly what a test tells it to, over a real loopback socket.

It records the bytes of each inference request as they came and hands the request to a script: a coroutine that gets the
request and its connection and may answer, stall, cut or reset at any point. Health probes and `/v1/models` are
answered by themselves, so that a router takes the worker for healthy.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

Header = tuple[bytes, bytes]
_PROBES = {
    b"/health": (200, b"{}"),
    b"/v1/models": (200, b'{"object":"list","data":[{"id":"m","object":"model"}]}'),
    b"/metrics": (404, b""),
}


@dataclass
class Request:
    """One request as it stood on the wire."""

    raw_head: bytes
    body: bytes
    connection_number: int
    number_on_connection: int

    @property
    def line(self) -> bytes:
        return self.raw_head.split(b"\r\n", 1)[0]

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    @property
    def headers(self) -> list[Header]:
        lines = self.raw_head.split(b"\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Connection:
    """The worker's end of a connection, for scripts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def close(self) -> None:
        """An orderly end: everything sent arrives, then the end of the stream."""
        self.writer.close()

    async def reset(self) -> None:
        """A TCP reset."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None:  # else it has ended already
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def wait_closed_by_peer(self) -> None:
        """Returns when the other side has closed or reset the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


Script = Callable[[Request, Connection], Awaitable[None]]


def response(
    body: bytes = b"{}",
    status: bytes = b"200 OK",
    headers: Iterable[Header] = ((b"Content-Type", b"application/json"),),
) -> bytes:
    """A whole response with Content-Length."""
    fields = [*headers, (b"Content-Length", b"%d" % len(body))]
    return head(status, fields) + body


def head(status: bytes, headers: Iterable[Header]) -> bytes:
    lines = [name + b": " + value for name, value in headers]
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"", b""])


SSE_HEAD = head(b"200 OK", [(b"Content-Type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")])
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
"""The last event of a stream of chat or completions; without it, a stream is broken."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answering(data: bytes) -> Script:
    """Answer every request with these bytes."""

    async def script(_request: Request, connection: Connection) -> None:
        await connection.send(data)

    return script


def streaming(events: Iterable[bytes]) -> Script:
    """Answer with an event stream, one chunk for each event."""
    return answering(SSE_HEAD + b"".join(map(chunk, events)) + LAST_CHUNK)


def then_closing(data: bytes) -> Script:
    """Send these bytes, then close in an orderly way."""

    async def script(_request: Request, connection: Connection) -> None:
        await connection.send(data)
        await connection.close()

    return script


def then_resetting(data: bytes = b"") -> Script:
    """Send these bytes, give them the time to arrive, then reset."""

    async def script(_request: Request, connection: Connection) -> None:
        await connection.send(data)
        await asyncio.sleep(0.02 if data else 0)
        await connection.reset()

    return script


@dataclass
class Hanging:
    """Send `before`, then nothing more until the router gives up; `given_up` tells when it did."""

    before: bytes = b""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _request: Request, connection: Connection) -> None:
        await connection.send(self.before)
        self.started.set()
        await connection.wait_closed_by_peer()
        self.given_up.set()


class ScriptedWorker:
    """Listens on a port of its own; `script` may be replaced at any time, `on_connect` takes new connections over."""

    def __init__(self, script: Script = answering(response())) -> None:  # noqa: B008 - a script holds no state
        self.is_well = True  # else every probe is answered 503
        self.model = b"m"
        self.script = script
        self.on_connect: Callable[[Connection], Awaitable[None]] | None = None
        self.requests: list[Request] = []
        self.connections_made = 0
        self.open_connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.tls: ssl.SSLContext | None = None  # to be set before it listens

    def forget(self) -> None:
        """Behave as if new; what other tests did is forgotten, open connections stay."""
        self.script = answering(response())
        self.on_connect = None
        self.requests.clear()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop_listening()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def listen(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, limit=2**20, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        """Refuse new connections; open ones go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(reader, writer)
        self.open_connections.add(connection)
        self.connections_made += 1
        try:
            await self._serve(connection, self.connections_made)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections.discard(connection)
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, connection: Connection, connection_number: int) -> None:
        if self.on_connect is not None:
            await self.on_connect(connection)
        number = 0
        while not connection.writer.is_closing():
            raw_head, body = await read_request(connection.reader)
            request = Request(raw_head, body, connection_number, number)
            if raw_head.startswith(b"GET ") and request.target in _PROBES:
                status, text = _PROBES[request.target] if self.is_well else (503, b"")
                if status == 200 and request.target == b"/v1/models":
                    text = text.replace(b'"m"', b'"%b"' % self.model)
                await connection.send(response(text, b"%d Probe" % status))
                continue
            number += 1
            self.requests.append(request)
            await self.script(request, connection)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of one request; IncompleteReadError at the end of the stream."""
    raw_head = await reader.readuntil(b"\r\n\r\n")
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in raw_head.split(b"\r\n"))
    }
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        return raw_head, await read_chunked(reader)
    return raw_head, await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def read_chunked(reader: asyncio.StreamReader) -> bytes:
    """The content of a chunked body, without trailers."""
    parts = []
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
        if not size:
            return b"".join(parts)
