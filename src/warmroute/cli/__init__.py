"""The `warmroute` command: finds the module of a command, loads it alone, and runs it.

Each command is a module of this package with `add_arguments(parser)` and `run(args) -> exit code`. What takes time to
load is loaded by `main`, which knows by then what a signal is to do.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from warmroute.cli.startup import ends_quietly

if TYPE_CHECKING:
    from argparse import Namespace
    from types import ModuleType

# What `warmroute --help` says of each, without loading any of them.
COMMANDS = {
    "serve": "run the router",
    "status": "tell whether a running router can serve, for people and scripts",
    "top": "watch a running router in the terminal",
    "check": "print the effective configuration, or everything that is wrong with it",
    "engine": "run a simulated engine",
    "demo": "compare round_robin with the default policy on simulated engines",
    "bench": "send recorded or synthetic load to any OpenAI endpoint and measure",
    "replay": "compare policies on recorded traffic, in virtual time",
}
BAD_USAGE = 2
# As in orderly ends: servers are meant to be ended by these signals, other commands are broken off.
_SERVERS = ("serve", "engine")
_ENDS_SERVER: Mapping[signal.Signals, int] = {signal.SIGINT: 0, signal.SIGTERM: 0}
_RELOADS = (signal.SIGHUP,)
_BREAKS_OFF: Mapping[signal.Signals, int] = {signal.SIGINT: 130}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for a command line or configuration that cannot be used."""
    given = list(sys.argv[1:] if argv is None else argv)
    name = given[0] if given else ""
    with ends_quietly(_ENDS_SERVER if name in _SERVERS else _BREAKS_OFF, _RELOADS if name == "serve" else ()):
        return _main(given)


def _main(given: Sequence[str]) -> int:
    from warmroute.cli.parser import VERSION, UsageError, parse
    from warmroute.config.options import hint

    if not given or given[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if given[0] in ("-V", "--version"):
        print(VERSION)
        return 0
    name, *rest = given
    if name not in COMMANDS:
        print(f"warmroute: unknown command {name}{hint(name, COMMANDS) or _known()}", file=sys.stderr)
        return BAD_USAGE
    module = import_module(f"{__name__}.{name}")
    try:
        args = parse(f"warmroute {name}", (module.__doc__ or "").strip(), module.add_arguments, rest)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    except UsageError as error:
        print(f"warmroute {name}: {error}", file=sys.stderr)
        return BAD_USAGE
    return _run(name, module, args)


def _run(name: str, module: ModuleType, args: Namespace) -> int:
    try:
        return int(module.run(args))
    except ValueError as error:
        import logging  # not before a signal has a handler: it takes as long as all else

        logging.getLogger(__name__).debug("%s ended by", name, exc_info=True)
        print(f"warmroute {name}: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        return _BREAKS_OFF[signal.SIGINT]  # as a shell reports a process that SIGINT ended


def _known() -> str:
    return f" (known: {', '.join(COMMANDS)})"


def _overview() -> str:
    lines = ["usage: warmroute COMMAND [flags]", "", "commands:"]
    lines += [f"  {name:<8}{summary}" for name, summary in COMMANDS.items()]
    lines += ["", "`warmroute COMMAND --help` lists the flags of a command; `warmroute --version` tells the version."]
    return "\n".join(lines)
