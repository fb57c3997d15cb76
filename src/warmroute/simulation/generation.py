"""Serves one request: the way from a checked request to the bytes of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from aiohttp import web

from warmroute.simulation.api_answer import DONE, Writer, error_event
from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.driver import Driver
from warmroute.simulation.job import Job

_STREAM_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}

_BREAKDOWN = (
    b'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}'
    b"\n\n"
)
"""As vLLM 0.32 writes it, with these spaces."""


class Generation:
    """The jobs of one request. Leaving the `with` block ends those that have not ended."""

    def __init__(
        self,
        request: GenerationRequest,
        driver: Driver,
        request_id: str,
        writer: Writer,
        stream_interval: int = 1,
    ) -> None:
        self.request_id = request_id
        self.jobs = [
            Job(
                prompt,
                request.max_tokens,
                finishes_with=request.finishes_with,
                salt=request.salt,
                spoken=request.spoken,
                receives=request.receives,
                keeps_kv=request.keeps_kv,
                notify=self._on_stream if request.stream else self._on_whole,
            )
            for prompt in request.prompts
        ]
        self._request = request
        self._driver = driver
        self._writer = writer
        self._interval = stream_interval
        self._sent = [0] * len(self.jobs)
        self._news = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Generation:
        for job in self.jobs:
            self._driver.submit(job)
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    @property
    def ended(self) -> bool:
        """Whether every choice is complete."""
        return all(job.finish_reason is not None for job in self.jobs)

    def abort(self) -> None:
        """End what has not ended; nothing more is waited for."""
        for job in self.jobs:
            self._driver.abort(job)
        for errand in self._errands:
            errand.cancel()

    async def finished(self) -> None:
        """Wait until every choice is complete."""
        await self._until(lambda: self.ended)

    async def receiving(self, job: Job) -> None:
        """Wait until a job that receives its KV cache was admitted, or has ended."""
        await self._until(lambda: job.receiving or job.finish_reason is not None)

    async def unless_aborted(self, errand: Coroutine[Any, Any, None]) -> None:
        """Run something on which the answer depends, but no longer than the request lives."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        try:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        finally:
            self._errands.discard(task)
            task.cancel()

    def _on_stream(self) -> None:
        if self._interval == 1 or any(map(self._is_due, self.jobs, self._sent)):
            self._news.set()

    def _is_due(self, job: Job, sent: int) -> bool:
        """Whether there is something to send or, of a job that receives, to be done."""
        due = sent + self._interval if sent else 1
        return len(job.words) >= due or job.finish_reason is not None or job.receiving

    def _on_whole(self) -> None:
        if self.ended or any(job.receiving for job in self.jobs):
            self._news.set()

    async def _until(self, met: Callable[[], bool]) -> None:
        while not met():
            self._news.clear()
            await self._news.wait()

    async def answer(self, http_request: web.Request, members: Mapping[str, Any] | None = None) -> web.StreamResponse:
        """Wait for the answer, with these further `members`, or stream it, without them."""
        if self._request.stream:
            return await _stream_of(http_request, self._chunks())
        await self.finished()
        return web.Response(body=self._writer.whole(self.jobs, members or {}), content_type="application/json")

    async def break_down(self, http_request: web.Request) -> web.StreamResponse:
        """Stream what vLLM streams when a request cannot be served after all: the opening, then what is no answer."""
        self.abort()
        opening = b"".join(map(self._writer.opening, range(len(self.jobs))))
        return await _stream_of(http_request, _just(opening + _BREAKDOWN + DONE))

    async def _chunks(self) -> AsyncIterator[bytes]:
        """What is due, in one piece for each time that something is due."""
        sent = self._sent
        closed = [False] * len(self.jobs)
        while True:
            self._news.clear()
            piece = b""
            for index, job in enumerate(self.jobs):
                words = job.words[sent[index] :]
                reason = None if closed[index] else job.finish_reason
                if len(words) > 1 and self._interval > 1:
                    words = ["".join(words)]
                if words and not sent[index]:
                    piece += self._writer.opening(index)
                piece += self._writer.tokens(index, job, words, reason)
                sent[index] = len(job.words)
                closed[index] = job.finish_reason is not None
            if all(closed):
                yield piece + (self._writer.usage(self.jobs) if self._request.include_usage else b"") + DONE
                return
            if piece:
                yield piece
            await self._news.wait()


async def stream_error(http_request: web.Request, error: ApiError) -> web.StreamResponse:
    """A stream that consists of an error."""
    return await _stream_of(http_request, _just(error_event(error.body()) + DONE))


async def _stream_of(http_request: web.Request, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers=_STREAM_HEADERS)
    try:
        await response.prepare(http_request)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    except ConnectionResetError:
        pass  # the client has left, which is no fault of the engine
    return response


async def _just(events: bytes) -> AsyncIterator[bytes]:
    yield events
