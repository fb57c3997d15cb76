"""Who looks at a router while it works: a collector of traces, and somebody with the live page open.

Run as a program this is the collector alone: it prints its port, takes every message and answers 200.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import httptools
import uvloop

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Collector(asyncio.Protocol):
    """Takes OTLP messages and reads nothing in them."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._transport.write(_OK)


@contextlib.asynccontextmanager
async def live_page(port: int) -> AsyncIterator[None]:
    """Somebody has the live page of the router at `port` open. Raises ConnectionError if there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def read() -> None:
        while await reader.read(65536):
            pass

    try:
        writer.write(b"GET /admin/events HTTP/1.1\r\nhost: bench\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"no live page: {head[:80]!r}")
        reading = asyncio.create_task(read())
        try:
            yield
        finally:
            reading.cancel()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def main() -> None:
    """Collect until ended."""
    server = await asyncio.get_running_loop().create_server(Collector, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
