"""The HTTP face of a simulated engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web
from xxhash import xxh3_64_intdigest

from warmroute.simulation.api_answer import AnswerWriter, Writer
from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import (
    GenerationRequest,
    Kind,
    check_model,
    read_generation,
    read_messages,
    read_object,
    read_prompts,
)
from warmroute.simulation.driver import Driver
from warmroute.simulation.generation import Generation
from warmroute.simulation.metrics_page import CONTENT_TYPE, metrics_page
from warmroute.simulation.pd.sglang_native import NativeWriter, read_native
from warmroute.simulation.pd.station import Station
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.tokens import TOKEN_BYTES, encode_chat, encode_text, unpack_ids
from warmroute.simulation.turn import Alone, Part

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES = 256 * 1024 * 1024
EMBEDDING_SIZE = 8


class EngineServer:
    """Handlers of one engine, and the switches that tests turn: `healthy`, `paused`, `thawed` (cleared: frozen).

    `station` is there if the engine does only half of the work.
    """

    def __init__(
        self,
        settings: EngineSettings,
        driver: Driver,
        start_time: float,
        thawed: asyncio.Event,
        station: Station | None = None,
    ) -> None:
        self.healthy = True
        self.paused = False
        self.thawed = thawed
        self._settings = settings
        self._driver = driver
        self._start_time = start_time
        self._station = station
        self._part: Part = Alone() if station is None else station.part
        self._generations: dict[str, Generation] = {}
        self._count = itertools.count(1)

    def application(self, *more: web.RouteDef) -> web.Application:
        """The aiohttp application with all routes, and some more."""
        if self._settings.dialect == "sglang":
            more = (web.post("/generate", self._native), *more)
        return self.bare_application(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.post("/v1/embeddings", self._embeddings),
                web.post("/v1/abort_requests", self._abort_requests),
                web.post("/tokenize", self._tokenize),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/simulation", self._simulation),
                *more,
            ]
        )

    def bare_application(self, routes: Iterable[web.RouteDef]) -> web.Application:
        """An application with these routes only, which freezes with the engine."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._gate])
        app.add_routes(routes)
        return app

    def abort_all(self) -> None:
        """End every request."""
        for generation in list(self._generations.values()):
            generation.abort()
        self._driver.abort_all()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        await self.thawed.wait()
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body(), status=error.status)
        except web.HTTPException as error:
            refusal = ApiError(error.reason, status=error.status, kind=error.reason.replace(" ", ""))
            headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
            return web.json_response(refusal.body(), status=error.status, headers=headers)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "completions")

    async def _generate(self, http_request: web.Request, kind: Kind) -> web.StreamResponse:
        fields = await self._fields(http_request)
        request = read_generation(fields, kind, self._settings.model, self._context_tokens)
        request_id = http_request.headers.get("x-request-id") or request.request_id or f"sim-{next(self._count)}"
        answer_id = f"{'chatcmpl' if kind == 'chat' else 'cmpl'}-{request_id}"
        writer = AnswerWriter(kind, answer_id, request.model, int(time.time()))
        return await self._serve(http_request, fields, request, (request_id, answer_id), writer)

    async def _native(self, http_request: web.Request) -> web.StreamResponse:
        """SGLang's own form of a completion."""
        fields = await self._fields(http_request)
        request, options = read_native(fields, self._context_tokens)
        request_id = request.request_id or f"sim-{next(self._count)}"
        writer = NativeWriter(options, request_id)
        return await self._serve(http_request, fields, request, (request_id, request_id), writer)

    async def _fields(self, http_request: web.Request) -> dict[str, Any]:
        if self.paused:
            raise ApiError("The engine is paused.", status=503, kind="ServiceUnavailableError")
        return read_object(await http_request.read())

    @property
    def _context_tokens(self) -> int:
        cache = self._driver.core.cache
        return cache.capacity * cache.block_size

    async def _serve(
        self,
        http_request: web.Request,
        fields: dict[str, Any],
        request: GenerationRequest,
        ids: tuple[str, str],
        writer: Writer,
    ) -> web.StreamResponse:
        turn = self._part.turn(fields, request)
        request_id, answer_id = ids
        interval = self._settings.stream_interval
        with Generation(turn.request, self._driver, request_id, writer, interval) as generation:
            self._generations[answer_id] = generation
            try:
                return await turn.answer(generation, http_request)
            finally:
                if self._generations.get(answer_id) is generation:
                    del self._generations[answer_id]

    async def _abort_requests(self, request: web.Request) -> web.Response:
        fields = read_object(await request.read())
        wanted = fields.get("req_ids")
        if fields.get("abort_all") is True:
            wanted = list(self._generations)
        elif not isinstance(wanted, list) or not wanted or not all(isinstance(item, str) for item in wanted):
            return web.json_response({"error": "must provide abort_all=true or req_ids"}, status=400)
        aborted, not_found = [], []
        for request_id in wanted:
            generation = self._find(request_id)
            if generation is None:
                not_found.append(request_id)
                continue
            generation.abort()
            tokens = sum(len(job.words) for job in generation.jobs)
            aborted.append({"request_id": request_id, "output_token_count": tokens})
        return web.json_response(
            {
                "request_id": f"control-sim-{next(self._count)}",
                "status": "success",
                "error_message": None,
                "result": {"aborted": aborted, "not_found": not_found},
            }
        )

    def _find(self, request_id: str) -> Generation | None:
        """By the id of the answer or by that of the request."""
        names = (request_id, f"chatcmpl-{request_id}", f"cmpl-{request_id}")
        return next((self._generations[name] for name in names if name in self._generations), None)

    async def _tokenize(self, request: web.Request) -> web.Response:
        """Answers vLLM's `tokens` and the `input_ids` that the FastDeploy router wants of a tokenizer."""
        fields = read_object(await request.read())
        if "messages" in fields:
            packed = encode_chat(read_messages(fields), fields.get("tools"))
        else:
            texts = (fields.get(name) for name in ("prompt", "text", "message"))
            text = next((text for text in texts if isinstance(text, str)), None)
            if text is None:
                raise ApiError("`prompt`, `text`, `message` or `messages` must hold the text.", param="prompt")
            packed = encode_text(text)
        ids = unpack_ids(packed)
        limit = self._context_tokens
        return web.json_response({"count": len(ids), "max_model_len": limit, "tokens": ids, "input_ids": ids})

    async def _embeddings(self, request: web.Request) -> web.Response:
        """Vectors that depend on nothing but the input, and mean nothing."""
        fields = read_object(await request.read())
        check_model(fields, self._settings.model)
        prompts = read_prompts(fields.get("input"), "input")
        data = [
            {"object": "embedding", "index": index, "embedding": _embedding(prompt)}
            for index, prompt in enumerate(prompts)
        ]
        tokens = sum(len(prompt) for prompt in prompts) // TOKEN_BYTES
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "data": data, "model": self._settings.model, "usage": usage})

    async def _models(self, request: web.Request) -> web.Response:
        model: dict[str, Any] = {
            "id": self._settings.model,
            "object": "model",
            "created": int(self._start_time),
            "owned_by": "warmroute-simulation",
            "max_model_len": self._context_tokens,
        }
        return web.Response(
            text=json.dumps({"object": "list", "data": [model]}, ensure_ascii=False), content_type="application/json"
        )

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def _simulation(self, request: web.Request) -> web.Response:
        """What no real engine tells."""
        told = {"role": self._settings.role} if self._station is None else self._station.as_dict()
        return web.json_response(told)

    async def _metrics(self, request: web.Request) -> web.Response:
        page = metrics_page(self._driver.core, self._settings, self._start_time, self._station)
        return web.Response(body=page.encode(), headers={"Content-Type": CONTENT_TYPE})


def _embedding(prompt: bytes) -> list[float]:
    return [xxh3_64_intdigest(prompt, seed=axis) / 2**63 - 1.0 for axis in range(EMBEDDING_SIZE)]
