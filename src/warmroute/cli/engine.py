"""Run simulated inference engines.

THIS IS A SIMULATION: no model is computed. The answers are made-up words that depend only on the prompt; prefill,
decode, batching and the KV cache are imitated by formulas. The engine speaks the OpenAI API and serves to try and to
test a router without a GPU. As prefill and decode engines they hand over to each other in the way of FastDeploy, SGLang
or vLLM (--dialect); no KV cache goes over the wire, but a proof of which prompt it would belong to.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from warmroute.cli.values import not_negative, port_list, port_number, positive, positive_int
from warmroute.event_loop import loop_factory
from warmroute.simulation.engine import RunningEngine, start_engine
from warmroute.simulation.pd.station import meeting_port_setting
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing

DEFAULT_BOOTSTRAP_PORT = 8998
"""SGLang's own, which a router assumes if it is not told."""


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
        "--role",
        choices=("mixed", "prefill", "decode"),
        default=default.role,
        help="compute whole requests, or one half of them (default: %(default)s)",
    )
    what = parser.add_argument_group("what it imitates")
    what.add_argument("--model", default=default.model, help="name of the model (default: %(default)s)")
    what.add_argument(
        "--dialect",
        choices=("fastdeploy", "vllm", "sglang"),
        default=default.dialect,
        help="whose metric names and handshake to use (default: %(default)s)",
    )
    _add_number(what, "--cache-tokens", positive_int, default.cache_tokens, "size of the KV cache in tokens")
    _add_number(what, "--block-size", positive_int, default.block_size, "tokens in a block of the cache")
    _add_number(what, "--max-running", positive_int, default.max_running, "requests that run at a time; others wait")
    _add_number(what, "--stream-interval", positive_int, default.stream_interval, "tokens of a chunk after the first")
    _add_handover_arguments(parser.add_argument_group("how prefill and decode engines hand over"), default)
    time = parser.add_argument_group("how fast")
    _add_number(time, "--prefill-speed", positive, timing.prefill_speed, "prompt tokens per second")
    _add_number(time, "--decode-speed", positive, timing.decode_speed, "answer tokens per second and request")
    _add_number(time, "--latency", not_negative, timing.latency, "seconds added to every prefill")
    slowdown = "share of a decode step that every further request in the batch adds"
    _add_number(time, "--batch-slowdown", not_negative, timing.batch_slowdown, slowdown)
    _add_number(time, "--transfer-speed", positive, timing.transfer_speed, "tokens per second of a KV cache on its way")
    _add_number(time, "--speed", positive, default.speed, "let time run this many times faster")


def _add_handover_arguments(group: argparse._ArgumentGroup, default: EngineSettings) -> None:
    group.add_argument(
        "--bootstrap-port",
        type=port_number,
        default=DEFAULT_BOOTSTRAP_PORT,
        metavar="N",
        help="where SGLang's decode engines come; further engines count up, 0: any that is free (default: %(default)s)",
    )
    group.add_argument(
        "--connector-port",
        type=port_number,
        default=0,
        metavar="N",
        help="likewise FastDeploy's (default: %(default)s)",
    )
    _add_number(
        group, "--lease-seconds", positive, default.lease_seconds, "how long a prefilled KV cache waits to be fetched"
    )
    _add_number(
        group, "--handover-seconds", positive, default.handover_seconds, "how long a decode engine waits for a prefill"
    )
    group.add_argument(
        "--on-kv-loss",
        choices=("fail", "recompute"),
        default=default.on_kv_loss,
        help="vLLM's kv_load_failure_policy (default: %(default)s)",
    )
    _add_number(group, "--tp-size", positive_int, default.tp_size, "tensor-parallel ranks, as they are told")
    group.add_argument(
        "--transfer-protocol",
        type=_protocols,
        default=default.transfer_protocol,
        metavar="NAMES",
        help="ipc, rdma or ipc,rdma, as they are told (default: rdma)",
    )


def _protocols(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= {"ipc", "rdma"}:
        raise argparse.ArgumentTypeError(f"must be ipc, rdma or ipc,rdma, not {text!r}")
    return names


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
        stream_interval=args.stream_interval,
        speed=args.speed,
        timing=Timing(args.prefill_speed, args.decode_speed, args.latency, args.batch_slowdown, args.transfer_speed),
        lease_seconds=args.lease_seconds,
        handover_seconds=args.handover_seconds,
        on_kv_loss=args.on_kv_loss,
        tp_size=args.tp_size,
        transfer_protocol=args.transfer_protocol,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(list(_each(base, ports, args))))


def _each(base: EngineSettings, ports: list[int], args: argparse.Namespace) -> Iterator[EngineSettings]:
    """The settings of every engine: ports that all would share count up."""
    for index, port in enumerate(ports):
        yield replace(
            base,
            port=port,
            bootstrap_port=args.bootstrap_port + index if args.bootstrap_port else 0,
            connector_port=args.connector_port + index if args.connector_port else 0,
        )


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
                wanted = ", ".join(map(str, filter(None, (settings.port, meeting_port_setting(settings)))))
                print(f"warmroute engine: cannot listen on {settings.host}:{wanted}: {reason}", file=sys.stderr)
                return 2
        for engine in engines:
            print(f"simulated {_name(engine)} at {engine.url}", flush=True)
        await stopped.wait()
    finally:
        await asyncio.gather(*(engine.stop() for engine in engines))
    return 0


def _name(engine: RunningEngine) -> str:
    """With the port that has to be told to a router, for instance in `--prefill URL,N`."""
    if engine.settings.role == "mixed":
        return "engine"
    name = f"{engine.settings.dialect} {engine.settings.role} engine"
    kind = "bootstrap" if engine.settings.dialect == "sglang" else "connector"
    return name if engine.meeting_port == engine.port else f"{name} ({kind} port {engine.meeting_port})"
