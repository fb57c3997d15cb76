"""Serves chat and completion requests: the way from a checked request to the bytes of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from warmroute.simulation.api_answer import DONE, AnswerWriter
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.core import Job
from warmroute.simulation.driver import Driver


class Generation:
    """The jobs of one request. Leaving the `with` block ends those that have not ended."""

    def __init__(self, request: GenerationRequest, driver: Driver, request_id: str, writer: AnswerWriter) -> None:
        self.request_id = request_id
        self.jobs = [
            Job(
                prompt,
                request.max_tokens,
                finishes_with=request.finishes_with,
                salt=request.salt,
                notify=self._on_stream if request.stream else self._on_whole,
            )
            for prompt in request.prompts
        ]
        self._request = request
        self._driver = driver
        self._writer = writer
        self._news = asyncio.Event()

    def __enter__(self) -> Generation:
        for job in self.jobs:
            self._driver.submit(job)
        return self

    def __exit__(self, *_: object) -> None:
        for job in self.jobs:
            self._driver.abort(job)

    @property
    def ended(self) -> bool:
        """Whether every choice is complete."""
        return all(job.finish_reason is not None for job in self.jobs)

    def _on_stream(self) -> None:
        self._news.set()

    def _on_whole(self) -> None:
        if self.ended:
            self._news.set()

    async def answer(self, http_request: web.Request) -> web.StreamResponse:
        """Wait for the answer, or stream it."""
        if self._request.stream:
            return await self._stream(http_request)
        await self._news.wait()
        return web.Response(body=self._writer.whole(self.jobs), content_type="application/json")

    async def _stream(self, http_request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        )
        await response.prepare(http_request)
        async for chunk in self._chunks():
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _chunks(self) -> AsyncIterator[bytes]:
        """What is due, in one piece for each time that something is due."""
        sent = [0] * len(self.jobs)
        closed = [False] * len(self.jobs)
        while not all(closed):
            await self._news.wait()
            self._news.clear()
            piece = b""
            for index, job in enumerate(self.jobs):
                words = job.words[sent[index] :]
                reason = None if closed[index] else job.finish_reason
                if words and not sent[index]:
                    piece += self._writer.opening(index)
                piece += self._writer.tokens(index, words, reason)
                sent[index] = len(job.words)
                closed[index] = job.finish_reason is not None
            if all(closed):
                piece += self._writer.usage(self.jobs) if self._request.include_usage else b""
                piece += DONE
            if piece:
                yield piece
