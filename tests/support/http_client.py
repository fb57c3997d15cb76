"""A client that speaks bytes: what it sends is what the test wrote, what it reads is what the router sent."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from tests.support.scripted_worker import Header, read_chunked

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
PATIENCE = 5.0
"""Seconds after which a test gives up waiting; every read ends long before."""


@dataclass
class Response:
    """One response; `raw_head` is what stood on the wire, `body` is without its framing."""

    raw_head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.raw_head.split(b" ", 2)[1])

    @property
    def reason(self) -> bytes:
        return self.raw_head.split(b"\r\n", 1)[0].split(b" ", 2)[2]

    @property
    def headers(self) -> list[Header]:
        lines = self.raw_head.split(b"\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: bytes) -> bytes:
        (value,) = self.values(name)
        return value

    @property
    def error(self) -> dict[str, Any]:
        """The OpenAI-style error object; fails when the body is none."""
        assert self.value(b"content-type").startswith(b"application/json")
        error = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["message"]
        assert "Traceback" not in error["message"]
        return error


def post(
    path: str = CHAT,
    body: bytes | dict[str, Any] = b'{"model":"m","messages":[]}',
    headers: Iterable[Header] = (),
    version: bytes = b"1.1",
) -> bytes:
    """A well-formed POST with Content-Length."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = [(b"Host", b"router"), (b"Content-Type", b"application/json"), *headers]
    lines = [name + b": " + value for name, value in [*fields, (b"Content-Length", b"%d" % len(content))]]
    return b"\r\n".join([b"POST " + path.encode() + b" HTTP/" + version, *lines, b"", content])


class Client:
    """One connection to the router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None) -> Self:
        """Connect; a small receive buffer makes a client that does not read felt early."""
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(
            *await asyncio.open_connection(
                sock=sock, limit=receive_buffer or 2**20, ssl=tls, server_hostname="127.0.0.1" if tls else None
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def send(self, data: bytes) -> None:
        """Send bytes; a router that has closed already is no failure."""
        if self.writer.is_closing():
            return
        try:
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), PATIENCE)
        except TimeoutError:
            raise
        except OSError:
            pass

    def end_sending(self) -> None:
        if not self.writer.is_closing():
            self.writer.write_eof()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def read_head(self) -> Response:
        """A response's head; the body, if any, is still to be read."""
        return Response(await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE), b"")

    async def read_response(self) -> Response:
        """One whole response, by its own framing. IncompleteReadError when the connection ends before it does."""
        answer = await self.read_head()
        answer.body = await asyncio.wait_for(self._read_body(answer), PATIENCE)
        return answer

    async def _read_body(self, answer: Response) -> bytes:
        if answer.status < 200 or answer.status in (204, 304):
            return b""
        if answer.values(b"transfer-encoding"):
            assert answer.values(b"transfer-encoding") == [b"chunked"]
            assert not answer.values(b"content-length")
            return await read_chunked(self.reader)
        if answer.values(b"content-length"):
            return await self.reader.readexactly(int(answer.value(b"content-length")))
        return await self.reader.read()

    async def read_chunk(self) -> bytes:
        """One chunk of a chunked body; b"" is the last."""
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), PATIENCE), 16)
        data = await asyncio.wait_for(self.reader.readexactly(size + 2), PATIENCE)
        return data[:size]

    async def read_to_end(self) -> bytes:
        """Everything until the router closes the connection, in whichever way."""
        parts = []
        try:
            while data := await asyncio.wait_for(self.reader.read(65536), PATIENCE):
                parts.append(data)
        except TimeoutError:
            raise
        except OSError:
            pass
        return b"".join(parts)

    async def ask(self, request: bytes) -> Response:
        await self.send(request)
        return await self.read_response()


async def ask(port: int, request: bytes) -> Response:
    """One request over a connection of its own."""
    async with await Client.connect(port) as client:
        return await client.ask(request)
