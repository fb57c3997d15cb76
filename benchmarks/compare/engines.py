"""A process of simulated engines that also answer what the other routers ask engines for.

    python -m benchmarks.compare.engines --count 8 --speed 10 --cache-tokens 300000

prints the ports that they listen on as one JSON list and serves until it is killed. `/figures` of the first port tells
what all of them have computed. vllm-router asks every engine to render every prompt (`/v1/chat/completions/render`) and
looks the token ids up in its tree: one id for each 256 characters of the prompt is what it gets, because it wants the
prompt's shape, and ids for all tokens, eight times for each request, would be most of this machine's work.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging

import msgspec
import uvloop
from aiohttp import web
from xxhash import xxh32_intdigest

from benchmarks.compare.lag import Lag
from benchmarks.compare.texts import MODEL
from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.settings import EngineSettings

STREAM_INTERVAL = 64
"""Tokens of a chunk: a chunk for every token would cost more than all the rest, and no router looks at them."""
_RENDERED_CHARS = 256


def rendered_ids(body: bytes) -> list[int]:
    """Token ids that are equal as far as the messages of a body are."""
    messages = msgspec.json.decode(body)["messages"]
    text = "".join(message["content"] for message in messages).encode()
    cuts = range(0, len(text), _RENDERED_CHARS)
    return [xxh32_intdigest(text[cut : cut + _RENDERED_CHARS]) >> 1 for cut in cuts]


async def _render(request: web.Request) -> web.Response:
    answer = {
        "request_id": "rendered",
        "model": MODEL,
        "sampling_params": {},
        "token_ids": rendered_ids(await request.read()),
    }
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def serve(count: int, speed: float, cache_tokens: int) -> None:
    """Run until cancelled."""
    engines: list[RunningEngine] = []
    with Lag() as lag:

        async def figures(_: web.Request) -> web.Response:
            uncached = [engine.core.prompt_tokens_total - engine.core.cached_tokens_total for engine in engines]
            prompt = sum(engine.core.prompt_tokens_total for engine in engines)
            return web.json_response({"uncached": uncached, "prompt": prompt, "lag_p99": lag.at(0.99)})

        routes = [web.post("/v1/chat/completions/render", _render), web.get("/figures", figures)]
        settings = EngineSettings(
            model=MODEL,
            dialect="vllm",
            cache_tokens=cache_tokens,
            stream_interval=STREAM_INTERVAL,
            speed=speed,
        )
        engines += [await start_engine(settings, routes) for _ in range(count)]
        print(json.dumps([engine.port for engine in engines]), flush=True)
        gc.freeze()
        await asyncio.Event().wait()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--speed", type=float, required=True)
    parser.add_argument("--cache-tokens", type=int, required=True)
    args = parser.parse_args()
    # sglang-router tries HTTP/2 first, and aiohttp would say so with a traceback each time.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    uvloop.run(serve(args.count, args.speed, args.cache_tokens))


if __name__ == "__main__":
    main()
