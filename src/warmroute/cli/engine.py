"""Run simulated inference engines.

THIS IS A SIMULATION: no model is computed. The answers are made-up words that depend only on the prompt; prefill,
decode, batching and the KV cache are imitated by formulas. The engine speaks the OpenAI API and serves to try and to
test a router without a GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from warmroute.cli.values import not_negative, port_list, positive, positive_int
from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    default = EngineSettings()
    timing = default.timing
    where = parser.add_argument_group("where")
    where.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    where.add_argument("--ports", type=port_list, help="ports of several engines: 8101-8108, or 8101,8105")
    where.add_argument("--count", type=positive_int, default=1, help="engines from --port upwards (default: 1)")
    where.add_argument("--host", default=default.host, help="address to listen on (default: %(default)s)")
    where.add_argument("--router", metavar="HOST:PORT", help="router to register with, every 5 seconds")
    where.add_argument(
        "--role", choices=("mixed", "prefill", "decode"), default=default.role, help="role to register as"
    )
    what = parser.add_argument_group("what it imitates")
    what.add_argument("--model", default=default.model, help="name of the model (default: %(default)s)")
    what.add_argument(
        "--dialect",
        choices=("fastdeploy", "vllm", "sglang"),
        default=default.dialect,
        help="whose metric names to use (default: %(default)s)",
    )
    _add_number(what, "--cache-tokens", positive_int, default.cache_tokens, "size of the KV cache in tokens")
    _add_number(what, "--block-size", positive_int, default.block_size, "tokens in a block of the cache")
    _add_number(what, "--max-running", positive_int, default.max_running, "requests that run at a time; others wait")
    time = parser.add_argument_group("how fast")
    _add_number(time, "--prefill-speed", positive, timing.prefill_speed, "prompt tokens per second")
    _add_number(time, "--decode-speed", positive, timing.decode_speed, "answer tokens per second and request")
    _add_number(time, "--latency", not_negative, timing.latency, "seconds added to every prefill")
    slowdown = "share of a decode step that every further request in the batch adds"
    _add_number(time, "--batch-slowdown", not_negative, timing.batch_slowdown, slowdown)
    _add_number(time, "--speed", positive, default.speed, "let time run this many times faster")


def _add_number(
    group: argparse._ArgumentGroup, flag: str, kind: Callable[[str], float], default: float, meaning: str
) -> None:
    group.add_argument(flag, type=kind, default=default, metavar="N", help=f"{meaning} (default: {default:g})")


def run(args: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM."""
    ports = args.ports or (
        None if args.port is None else [args.port + (at if args.port else 0) for at in range(args.count)]
    )
    if ports is None:
        print("warmroute engine: --port or --ports is required", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    base = EngineSettings(
        host=args.host,
        model=args.model,
        dialect=args.dialect,
        role=args.role,
        router=args.router,
        cache_tokens=args.cache_tokens,
        block_size=args.block_size,
        max_running=args.max_running,
        speed=args.speed,
        timing=Timing(args.prefill_speed, args.decode_speed, args.latency, args.batch_slowdown),
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve([replace(base, port=port) for port in ports]))


def _ports(args: argparse.Namespace) -> list[int]:
    if args.ports:
        return list(args.ports)
    if args.port is None:
        raise ValueError("--port or --ports is required")
    return [args.port + (index if args.port else 0) for index in range(args.count)]


async def _serve(all_settings: list[EngineSettings]) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    engines: list[RunningEngine] = []
    try:
        for settings in all_settings:
            try:
                engines.append(await start_engine(settings))
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else error
                print(f"warmroute engine: cannot listen on {settings.host}:{settings.port}: {reason}", file=sys.stderr)
                return 2
        for engine in engines:
            print(f"simulated engine at {engine.url}", flush=True)
        await stopped.wait()
    finally:
        await asyncio.gather(*(engine.stop() for engine in engines))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop
