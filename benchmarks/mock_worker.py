"""A process of mock engines: as little work per request as an answer on the wire can cost.

    python -m benchmarks.mock_worker --workers 4 --cache-tokens 500000 [--pairs sglang]

prints the ports that it listens on as one JSON list and serves until it is killed. A chat request gets a fixed answer:
JSON, or an event stream of `CHUNKS` tokens with a write for each, `TOKEN_SECONDS` apart. The other paths are what the
routers ask a worker for before they use it. With `--pairs` the first half are prefill engines of that make, the others
decode engines (`mock_pairs`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import Mapping

import uvloop

from benchmarks.answers import ANSWER_BYTES, CHUNKS, LAST_BYTES, STREAM_HEAD, TOKEN_BYTES, head, pages
from benchmarks.mock_pairs import PAIRS, Engine

TOKEN_SECONDS = 0.005
_GOLDEN = 0.618


class MockWorker(asyncio.Protocol):
    """One connection. Understands requests with a content-length, one after the other."""

    def __init__(self, pages: Mapping[bytes, bytes], phases: itertools.count[int], engine: Engine) -> None:
        self._pages = pages
        self._phases = phases
        self._engine = engine
        self._buffer = bytearray()
        self._wanted = 0
        self._chunks_left = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._buffer += data
        if not self._wanted:
            head_end = self._buffer.find(b"\r\n\r\n") + 4
            if head_end < 4:
                return
            self._wanted = head_end + _content_length(bytes(self._buffer[:head_end]).lower())
        if len(self._buffer) >= self._wanted:
            request, self._buffer = self._buffer, bytearray()
            self._wanted = 0
            self._respond(request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._chunks_left = 0

    def write(self, data: bytes) -> None:
        """Send a whole response."""
        self._transport.write(data)

    def answer(self, request: bytearray) -> None:
        """Send the common answer, streamed if the request wants that."""
        if b'"stream":true' in request:
            self._transport.write(STREAM_HEAD)
            self._chunks_left = CHUNKS
            # Streams that begin together must not tick together: a router would get many of them with one wake-up.
            self._loop.call_later(TOKEN_SECONDS * (next(self._phases) * _GOLDEN % 1), self._next_token)
        else:
            self._transport.write(ANSWER_BYTES)

    def _respond(self, request: bytearray) -> None:
        if request.startswith(b"POST"):
            self._engine(self, request)
        else:
            path = bytes(request.split(b" ", 2)[1].split(b"?")[0])
            self.write(self._pages.get(path) or head("text/plain", "content-length: 0", "404 Not Found"))

    def _next_token(self) -> None:
        if self._chunks_left > 1:
            self._chunks_left -= 1
            self._transport.write(TOKEN_BYTES)
            self._loop.call_later(TOKEN_SECONDS, self._next_token)
        elif self._chunks_left:
            self._chunks_left = 0
            self._transport.write(LAST_BYTES)


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


def _engines(workers: int, make: str | None) -> list[Engine]:
    """What each worker does with a POST."""
    if make is None:
        return [MockWorker.answer] * workers  # type: ignore[list-item]
    pairs = PAIRS[make]()
    return [pairs.prefill if number < workers // 2 else pairs.decode for number in range(workers)]


async def serve(workers: int, cache_tokens: int, make: str | None) -> None:
    """Listen on `workers` free loopback ports, print them, and serve until cancelled."""
    loop = asyncio.get_running_loop()
    known, phases = pages(make or "vllm", cache_tokens), itertools.count()
    servers = [
        await loop.create_server(lambda engine=engine: MockWorker(known, phases, engine), "127.0.0.1", 0)  # type: ignore[misc]
        for engine in _engines(workers, make)
    ]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--cache-tokens", type=int, required=True, help="KV cache that each worker tells to have")
    parser.add_argument("--pairs", choices=sorted(PAIRS), help="prefill and decode engines of this make")
    args = parser.parse_args()
    try:
        uvloop.run(serve(args.workers, args.cache_tokens, args.pairs))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
