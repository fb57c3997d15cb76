"""A closed-loop load generator: some connections, each with one request in flight, every answer checked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httptools

_PATIENCE_SECONDS = 30.0
"""An answer that takes longer than this after the run's end is lost."""
_MOST_ERRORS = 3


@dataclass
class LoadResult:
    """What one run saw. `errors` has the first few texts of the `failed` answers."""

    requests: int = 0
    failed: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    def add(self, other: LoadResult) -> None:
        """Take in another run."""
        self.requests += other.requests
        self.failed += other.failed
        self.seconds += other.seconds
        self.errors = (self.errors + other.errors)[:_MOST_ERRORS]

    def fail(self, text: str) -> None:
        """Count one answer that was not as it must be."""
        self.failed += 1
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(text)


class Load:
    """Connections to one port that stay open from run to run: what they cost to open is in none."""

    def __init__(self, lanes: list[Lane]) -> None:
        self._lanes = lanes

    async def run(
        self, next_request: Callable[[], bytes], *, seconds: float | None = None, requests: int | None = None
    ) -> LoadResult:
        """Keep the connections busy for so many seconds or requests, then let the running ones end.

        An answer counts as good with status 200 and a body of exactly the right length. A connection that breaks is not
        opened again: a request of it fails in this run and in every later one, and what it would have sent is missing.
        """
        result = LoadResult()
        started = time.perf_counter()
        left = requests

        def take() -> bytes | None:
            nonlocal left
            if left is not None:
                if left <= 0:
                    return None
                left -= 1
            if seconds is not None and time.perf_counter() - started >= seconds:
                return None
            return next_request()

        running = [lane.begin(take, result) for lane in self._lanes]
        await asyncio.wait(running, timeout=(seconds or 60.0) + _PATIENCE_SECONDS)
        result.seconds = time.perf_counter() - started
        for lane, done in zip(self._lanes, running, strict=True):
            if not done.done():
                result.fail("no answer in time")
                lane.close()
        return result

    def close(self) -> None:
        """Hang up; what is in flight is dropped."""
        for lane in self._lanes:
            lane.close()


@contextlib.asynccontextmanager
async def connected(port: int, body_bytes: int, connections: int) -> AsyncIterator[Load]:
    """So many connections to a loopback port, whose right answers have `body_bytes`."""
    loop = asyncio.get_running_loop()
    lanes = [Lane(body_bytes) for _ in range(connections)]
    load = Load(lanes)
    try:
        for lane in lanes:
            await loop.create_connection(lambda lane=lane: lane, "127.0.0.1", port)  # type: ignore[misc]
        yield load
    finally:
        load.close()


async def run_load(
    port: int,
    next_request: Callable[[], bytes],
    body_bytes: int,
    *,
    connections: int,
    seconds: float | None = None,
    requests: int | None = None,
) -> LoadResult:
    """One run of `Load.run` on connections of its own."""
    async with connected(port, body_bytes, connections) as load:
        return await load.run(next_request, seconds=seconds, requests=requests)


class Lane(asyncio.Protocol):
    """One connection and its one request in flight."""

    def __init__(self, body_bytes: int) -> None:
        self._expected = body_bytes
        self._received = 0
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] | None = None
        self._take: Callable[[], bytes | None]
        self._result: LoadResult

    def begin(self, take: Callable[[], bytes | None], result: LoadResult) -> asyncio.Future[None]:
        """Send what `take` gives until it gives None; the future is done when the last answer is here."""
        self._take, self._result = take, result
        self._done = done = asyncio.get_running_loop().create_future()
        if self._transport is None:
            self._break("its connection had been closed")
        else:
            self._send(self._transport)
        return done

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.close()
            self._break(f"not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        self._break(f"connection closed by the router: {exc or 'end of file'}")

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._received += len(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        status = self._parser.get_status_code()
        if status == 200 and self._received == self._expected:
            self._result.requests += 1
        else:
            self._result.fail(f"status {status}, {self._received} bytes instead of {self._expected}")
        if self._transport is not None:
            self._send(self._transport)

    def close(self) -> None:
        """Hang up; what is in flight is dropped."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _send(self, transport: asyncio.Transport) -> None:
        self._received = 0
        request = self._take()
        if request is None:
            self._end()
        else:
            transport.write(request)

    def _break(self, why: str) -> None:
        if self._done is not None and not self._done.done():
            self._result.fail(why)
            self._end()

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
