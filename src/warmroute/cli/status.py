"""Tell how a running router does.

Exit code 0: it can serve requests now. 1: it runs but cannot (no worker, or no pair of them, can get requests; or it
is about to end). 2: nothing is known: it does not answer, refuses, or the command line cannot be understood.
"""

from __future__ import annotations

import argparse
import sys

from warmroute.cli.admin_client import add_connection_arguments, client_for, read_state
from warmroute.cli.figures import age, count, rate, seconds, share
from warmroute.cli.router_view import State
from warmroute.cli.values import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_connection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print what the router tells (GET /admin/state) as it is")
    parser.add_argument("--timeout", type=positive, default=5.0, metavar="S", help="seconds to wait (default: 5)")


def run(args: argparse.Namespace) -> int:
    """Print it; the exit code is the health."""
    client = client_for(args, args.timeout)
    body = client.raw_state()
    state = read_state(body)
    sys.stdout.write(body.decode() + "\n" if args.json else describe(state, client.url))
    return 0 if state.can_serve else 1


def describe(state: State, url: str) -> str:
    """A few lines for people."""
    totals = state.totals
    lines = [
        f"{'can serve' if state.can_serve else 'CANNOT SERVE'}: {totals.routable} of {totals.workers} workers "
        f"can get requests",
        f"{url}: warmroute {state.version}, {state.mode}, {state.policy}, up {age(state.uptime_seconds)}",
        f"{rate(totals.requests_per_second)} requests/s, {rate(totals.errors_per_second)} errors/s, "
        f"{totals.running} running, {totals.queued} queued, {count(totals.pending_prefill_tokens)} prompt tokens wait",
        f"TTFT p50 {seconds(totals.ttft_p50_seconds)}, p99 {seconds(totals.ttft_p99_seconds)}, "
        f"cache hits {share(totals.hit_share)} of prompt tokens",
    ]
    lines += [
        f"{worker.id} ({worker.role}): {worker.condition}" for worker in state.workers if not worker.can_be_chosen
    ]
    return "\n".join(lines) + "\n"
