"""A closed-loop load generator: some connections, each with one request in flight, every answer checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

_PATIENCE_SECONDS = 30.0
"""An answer that takes longer than this after the run's end is lost."""


@dataclass
class LoadResult:
    """What one run saw. `errors` has the first few texts of the `failed` answers."""

    requests: int = 0
    failed: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    def fail(self, text: str) -> None:
        """Count one answer that was not as it must be."""
        self.failed += 1
        if len(self.errors) < 3:
            self.errors.append(text)


async def run_load(
    port: int,
    next_request: Callable[[], bytes],
    body_bytes: int,
    *,
    connections: int,
    seconds: float | None = None,
    requests: int | None = None,
) -> LoadResult:
    """Keep `connections` busy for so many seconds or requests, then let the running ones end.

    An answer counts as good with status 200 and a body of exactly `body_bytes`. A connection that breaks is not opened
    again: its request fails, and what it would have sent is missing.
    """
    loop = asyncio.get_running_loop()
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

    lanes = [Lane(take, body_bytes, result) for _ in range(connections)]
    for lane in lanes:
        await loop.create_connection(lambda lane=lane: lane, "127.0.0.1", port)  # type: ignore[misc]
    _, hanging = await asyncio.wait([lane.done for lane in lanes], timeout=(seconds or 60.0) + _PATIENCE_SECONDS)
    result.seconds = time.perf_counter() - started
    for _ in hanging:
        result.fail("no answer in time")
    for lane in lanes:
        lane.close()
    return result


class Lane(asyncio.Protocol):
    """One connection and its one request in flight."""

    def __init__(self, take: Callable[[], bytes | None], body_bytes: int, result: LoadResult) -> None:
        self._take = take
        self._expected = body_bytes
        self._result = result
        self._received = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._result.fail(f"not HTTP: {error}")
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if not self.done.done():
            self._result.fail(f"connection closed by the router: {exc or 'end of file'}")
            self._end()

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
        self._send()

    def close(self) -> None:
        """Hang up; what is in flight is dropped."""
        self._end()

    def _send(self) -> None:
        self._received = 0
        request = self._take()
        if request is None:
            self._end()
        else:
            self._transport.write(request)

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        self._transport.close()
