"""Compare round_robin with the default policy on four simulated engines, or --pd on two prefill and two decode engines.

Starts the engines and the router as processes of their own on free ports, plays a multi-turn workload through real
sockets, once for each policy and with fresh engines each time, and prints a table. Everything that was started is
stopped at the end, also on Ctrl-C and SIGTERM. The engines are a simulation: no model is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from warmroute.cli.signals import EXIT_CODES, until_signal
from warmroute.cli.values import output_file, positive_int
from warmroute.config.tree import SchedulerConfig
from warmroute.simulation.demo import DemoPlan, Round, pd_plan, play_round
from warmroute.simulation.load.progress import LoadProgress
from warmroute.simulation.load.report import print_table
from warmroute.simulation.processes import ChildError

_REFERENCE = "round_robin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    plan = DemoPlan()
    parser.add_argument(
        "--pd", action="store_true", help="prefill and decode on engines of their own (vLLM's handshake)"
    )
    parser.add_argument("--sessions", type=positive_int, default=plan.load.sessions, metavar="N", help="conversations")
    parser.add_argument("--turns", type=positive_int, default=plan.load.turns, metavar="N", help="turns of each")
    parser.add_argument("--concurrency", type=positive_int, default=plan.concurrency, metavar="N", help="at a time")
    parser.add_argument("--seed", type=int, default=plan.load.seed, help="seed of the texts")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures to FILE as well")


def run(args: argparse.Namespace) -> int:
    """Play both rounds and print the table. 0 when every request was answered, 1 when not or when a start failed."""
    default = pd_plan() if args.pd else DemoPlan()
    load = replace(default.load, sessions=args.sessions, turns=args.turns, seed=args.seed)
    plan = replace(default, load=load, concurrency=args.concurrency)
    defaults = SchedulerConfig()
    policies = (_REFERENCE, defaults.prefill_policy if args.pd else defaults.policy)
    rounds: dict[str, Round] = {}
    try:
        stopped_by = asyncio.run(_play(plan, policies, rounds))
    except ChildError as error:
        print(error, file=sys.stderr)
        return 1
    if stopped_by is not None:
        return EXIT_CODES[stopped_by]
    print_table(Console(), {name: one.load for name, one in rounds.items()}, plan.title, _handovers(rounds))
    if args.json:
        args.json.write_text(json.dumps({name: one.as_dict() for name, one in rounds.items()}, indent=2) + "\n")
    return 1 if any(one.load.failed or one.load.not_sent or one.kv_wrong for one in rounds.values()) else 0


def _handovers(rounds: Mapping[str, Round]) -> Mapping[str, Sequence[str]]:
    """Rows about KV caches, if any went from one engine to another."""
    if all(one.kv_confirmed is None for one in rounds.values()):
        return {}
    return {
        "KV transfers confirmed": [str(one.kv_confirmed) for one in rounds.values()],
        "KV transfers wrong or lost": [str(one.kv_wrong) for one in rounds.values()],
    }


async def _play(plan: DemoPlan, policies: Sequence[str], rounds: dict[str, Round]) -> signal.Signals | None:
    async def both() -> None:
        for policy in policies:
            with LoadProgress(Console(stderr=True), policy, plan.requests) as progress:
                rounds[policy] = await play_round(plan, policy, progress.update)

    return await until_signal(both())
