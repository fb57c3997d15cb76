"""Watch a running router in the terminal: the fleet, the last minutes, every worker.

Keys: q or Escape quits, up and down (or k and j) select a worker, s changes the order, d drains the selected worker or
ends that. Needs a terminal; `warmroute status` is for scripts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

from rich.console import Console, ConsoleDimensions
from rich.live import Live

from warmroute.cli.admin_client import AdminClient, RouterError, add_connection_arguments, client_for
from warmroute.cli.keyboard import Keyboard
from warmroute.cli.top_view import View, draw
from warmroute.cli.values import positive

_TIMEOUT_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_PAGE_ROWS = 10
_MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -_PAGE_ROWS, "page down": _PAGE_ROWS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_connection_arguments(parser)
    parser.add_argument(
        "--interval", type=positive, default=1.0, metavar="S", help="seconds between two looks (default: 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Watch until q, Escape or Ctrl-C. Exit code 0; 2 without a terminal, or if no router answers at first."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("a terminal is needed; `warmroute status` is for scripts")
    client = client_for(args, _TIMEOUT_SECONDS)
    view = View(client.url)
    view.state, view.samples = client.state(), client.history().samples
    poller = _Poller(client, view, args.interval)
    # From here on an end has to give the terminal back.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    console = Console()
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        poller.start()
        try:
            _watch(console, live, keyboard, view, client, poller)
        except (KeyboardInterrupt, EOFError):
            pass
        finally:
            poller.stop()
    return 0


def _watch(console: Console, live: Live, keyboard: Keyboard, view: View, client: AdminClient, poller: _Poller) -> None:
    shown: object = None
    while True:
        # Not what COLUMNS and LINES say, which stay as they were when the window changes.
        console.size = ConsoleDimensions(*os.get_terminal_size(sys.stdout.fileno()))
        now = (poller.looks, console.size, view.selected, view.sort, view.message)
        if now != shown:
            shown = now
            live.update(draw(view, console.width, console.height), refresh=True)
        key = keyboard.key(_LOOK_SECONDS)
        if key in ("q", "escape"):
            return
        if key:
            view.message = ""
        if key in _MOVES:
            view.move(_MOVES[key])
        elif key == "s":
            view.next_sort()
        elif key == "d":
            view.message = _turn(view, client)
            poller.look()


def _turn(view: View, client: AdminClient) -> str:
    """Drain the selected worker or end that; returns what became of it."""
    worker = view.chosen()
    if worker is None:
        return ""
    drained = worker.state != "draining"
    try:
        client.hold(worker.id, drained=drained)
    except RouterError as error:
        return str(error)
    return f"{worker.id} gets {'no new requests' if drained else 'requests again'}"


class _Poller:
    """Asks in a thread of its own, so that keys are answered at once however long the router takes."""

    def __init__(self, client: AdminClient, view: View, interval: float) -> None:
        self._client = client
        self._view = view
        self._interval = interval
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)
        self._history_at = time.monotonic()
        self.looks = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def look(self) -> None:
        """Ask now."""
        self._wake.set()

    def stop(self) -> None:
        """Ask no more; a question under way is not waited for."""
        self._ended = True
        self._wake.set()

    def _run(self) -> None:
        while not self._ended:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._ask()
            self.looks += 1

    def _ask(self) -> None:
        view = self._view
        try:
            view.state = self._client.state()
            if time.monotonic() - self._history_at >= 5:
                self._history_at = time.monotonic()
                view.samples = self._client.history().samples
        except RouterError as error:
            view.trouble = view.message = str(error)
        else:
            view.trouble = ""
