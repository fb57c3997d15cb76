"""Replay recorded traffic through the router's scheduler, against simulated engines, in virtual time.

Traces: Mooncake's JSON lines, RAGPulse chunks, session files with run-length coded blocks, OpenAI bodies, conversations
of tau-bench, and the router's own access log if it was written with prefixes. Each may be gzipped. Sessions are closed
loops: a turn starts when the one before has ended and its think time is over. Every combination of trace, rate and
policy is one run; policies are compared on the same arrivals. Besides the policies that can be configured there are
those of other routers, and `oracle`, which asks the engines themselves.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from warmroute.cli.replay_values import engine_model, policy_by_name, rate_factor, scheduler_options, speed_list
from warmroute.cli.values import output_file, positive_int
from warmroute.config.tree import SchedulerConfig
from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.progress import ReplayProgress
from warmroute.replay.readers.read import read_trace
from warmroute.replay.report.page import page
from warmroute.replay.report.table import print_results
from warmroute.replay.result import Result
from warmroute.replay.run import AnyPolicy
from warmroute.replay.run import run as replay
from warmroute.replay.trace import Trace

_POLICIES = ("round_robin", "process_tokens", "cache_aware")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    fleet = Fleet()
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="file with recorded traffic")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"policy to compare; may be repeated (default: {', '.join(_POLICIES)})",
    )
    parser.add_argument(
        "--rate",
        action="append",
        type=rate_factor,
        metavar="xR",
        help="how many times as fast as recorded; may be repeated (default: x1)",
    )
    parser.add_argument("--limit", type=positive_int, metavar="N", help="stop after the session with request N")
    parser.add_argument("--seed", type=int, default=0, help="seed of starts and of policies (default: 0)")
    parser.add_argument("--decode-policy", metavar="NAME", help="policy of decode engines (default: request_num)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the scheduler, as in the configuration file; may be repeated",
    )
    engines = parser.add_argument_group("engines")
    engines.add_argument("--workers", type=positive_int, default=fleet.workers, metavar="N", help="mixed engines")
    engines.add_argument("--prefill", type=positive_int, default=0, metavar="N", help="instead: prefill engines, and")
    engines.add_argument("--decode", type=positive_int, default=0, metavar="N", help="decode engines")
    engines.add_argument(
        "--engine",
        choices=("fastdeploy", "sglang", "vllm"),
        default="sglang",
        help="as whose a prefill engine answers: when the decode engine has taken the prompt over (sglang, the "
        "default), or when it is computed",
    )
    engines.add_argument(
        "--cache-tokens",
        type=positive_int,
        default=fleet.cache_tokens,
        metavar="N",
        help=f"KV cache of each engine (default: {fleet.cache_tokens})",
    )
    engines.add_argument(
        "--speeds", type=speed_list, default=(1.0,), metavar="S,...", help="how fast engines are, in turn (default: 1)"
    )
    engines.add_argument(
        "--tell-cached",
        action="store_true",
        help="engines say with each answer how much of its prompt was cached, and the router learns from it",
    )
    engines.add_argument(
        "--engine-model",
        type=engine_model,
        default=EngineModel(),
        metavar="KEY=N,...",
        help="what a step costs in seconds and how large it may be; "
        f"keys: {', '.join(EngineModel.__dataclass_fields__)}",
    )
    parser.add_argument("--html", type=output_file, metavar="FILE", help="write a page with tables and plots to FILE")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures to FILE as well")


_PIPE_COLUMNS = 132


@dataclass(frozen=True, slots=True)
class _Cell:
    """One run."""

    trace: Trace
    rate: float
    policy: AnyPolicy


def run(args: argparse.Namespace) -> int:
    """Replay all combinations; show and write the figures."""
    options = scheduler_options(args.set)
    policies = [policy_by_name(name) for name in args.policy or _POLICIES]
    decode_policy = policy_by_name(args.decode_policy) if args.decode_policy else None
    fleet = Fleet(
        args.workers,
        args.engine_model,
        args.cache_tokens,
        args.prefill,
        args.decode,
        args.speeds,
        args.tell_cached,
        tells_prefill=args.engine != "sglang",
    )
    traces = [_read(path, args.limit) for path in args.traces]
    cells = [_Cell(trace, rate, policy) for trace in traces for rate in args.rate or (1.0,) for policy in policies]
    # A large trace is millions of objects that stay: the garbage collector need not look at them.
    gc.freeze()
    results = list(_play(cells, fleet, options, args.seed, decode_policy))
    # A pipe has no width of its own, and figures that are cut tell nothing.
    print_results(Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS), results)
    if args.html:
        args.html.write_text(page(results), encoding="utf-8")
    if args.json:
        args.json.write_text(json.dumps([result.as_dict() for result in results], indent=2) + "\n")
    return 0


def _read(path: Path, limit: int | None) -> Trace:
    trace = read_trace(path)
    return trace if limit is None else trace.first(limit)


def _play(
    cells: Sequence[_Cell], fleet: Fleet, options: SchedulerConfig, seed: int, decode_policy: AnyPolicy | None
) -> Iterator[Result]:
    with ReplayProgress(Console(stderr=True), sum(cell.trace.requests for cell in cells)) as progress:
        for cell in cells:
            result = replay(
                cell.trace,
                cell.policy,
                fleet,
                rate=cell.rate,
                seed=seed,
                options=options,
                decode_policy=decode_policy,
                progress=progress.update,
            )
            progress.next_run(len(result.requests))
            yield result
