"""Send recorded or synthetic load to any OpenAI endpoint and measure it.

The load is a file (--input: JSON lines with one OpenAI body each, or conversations in the form of tau-bench; either may
be gzipped) or a synthetic multi-turn workload (--synthetic). Exit code 0 if every request was answered completely,
1 if not, 130 after Ctrl-C; then the figures so far are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from warmroute.cli.signals import EXIT_CODES, until_signal
from warmroute.cli.values import endpoint_url, output_file, positive, positive_int
from warmroute.simulation.load.client import REFUSALS, LoadClient
from warmroute.simulation.load.progress import LoadProgress
from warmroute.simulation.load.readers import read_sessions
from warmroute.simulation.load.records import Summary
from warmroute.simulation.load.report import print_table
from warmroute.simulation.load.runner import LoadRun
from warmroute.simulation.load.synthetic import SyntheticLoad, parse_load
from warmroute.simulation.load.workload import Overrides, Session

_CONCURRENCY = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "url", nargs="?", type=endpoint_url, metavar="URL", help="endpoint, for instance http://127.0.0.1:30000"
    )
    parser.add_argument("--base-url", type=endpoint_url, metavar="URL", help="another way to name the endpoint")
    parser.add_argument("--api-key", help="sent as a bearer token")
    load = parser.add_argument_group("load")
    source = load.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, metavar="FILE", help="recorded load")
    shape = SyntheticLoad()
    source.add_argument(
        "--synthetic",
        type=_synthetic_load,
        metavar="KEY=N,...",
        help=f"synthetic load; keys with defaults: sessions={shape.sessions}, turns={shape.turns}, "
        f"tenants={shape.tenants}, system_tokens={shape.system_tokens}, user_tokens={shape.user_tokens}, "
        f"answer_tokens={shape.answer_tokens}, seed={shape.seed}",
    )
    load.add_argument("--limit", type=positive_int, metavar="N", help="use the first N sessions (lines) only")
    load.add_argument("--model", help="replace the model in every body (default: keep it, else the first one listed)")
    load.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="stream the answers, or not (default: as recorded; conversations stream)",
    )
    pace = parser.add_argument_group("pace")
    # Without a default argparse tells `--concurrency 8` beside --rate from none.
    either = pace.add_mutually_exclusive_group()
    either.add_argument(
        "--concurrency", type=positive_int, metavar="N", help=f"sessions at a time (default: {_CONCURRENCY})"
    )
    either.add_argument(
        "--rate",
        type=positive,
        metavar="R",
        help="instead: start sessions at random times, R requests a second in the mean",
    )
    pace.add_argument("--seed", type=int, default=0, help="seed of these times (default: 0)")
    pace.add_argument("--timeout", type=positive, default=600.0, metavar="S", help="seconds a request may take")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures to FILE as well")


def _synthetic_load(text: str) -> SyntheticLoad:
    try:
        return parse_load(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Play the load; show and write what was measured."""
    if bool(args.url) == bool(args.base_url):
        raise ValueError("give the endpoint as URL or as --base-url")
    args.url = args.url or args.base_url
    sessions = read_sessions(args.input) if args.input else args.synthetic.make()
    summary, stopped_by = asyncio.run(_play(args, sessions[: args.limit]))
    print_table(Console(), {"": summary}, f"load on {args.url}")
    if args.json:
        args.json.write_text(json.dumps({"endpoint": args.url, **summary.as_dict()}, indent=2) + "\n")
    if stopped_by is not None:
        return EXIT_CODES[stopped_by]
    return 1 if summary.failed else 0


async def _play(args: argparse.Namespace, sessions: Sequence[Session]) -> tuple[Summary, signal.Signals | None]:
    async with LoadClient(args.url, api_key=args.api_key, timeout_seconds=args.timeout) as client:
        asks_for_none = not args.model and any(not session.body(0, []).get("model") for session in sessions)
        default_model = await client.first_model() if asks_for_none else None
        overrides = Overrides(model=args.model, default_model=default_model, stream=args.stream)
        planned = sum(len(session) for session in sessions)
        with LoadProgress(Console(stderr=True), "requests", planned) as progress:
            load = LoadRun(client, sessions, overrides, progress.update)
            if args.rate:
                stopped_by = await until_signal(load.open_loop(args.rate, random.Random(args.seed)))
            else:
                stopped_by = await until_signal(load.closed_loop(args.concurrency or _CONCURRENCY))
        summary = load.summary()
        for status in REFUSALS:
            if f"HTTP {status}" in summary.errors:
                print(f"warmroute bench: {client.refused(status)}", file=sys.stderr)
        return summary, stopped_by
