"""Child processes of the demo: started together, and certainly stopped."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

STOP_SECONDS = 5.0
"""How long a child may take to end by itself before it is killed."""


class ChildError(RuntimeError):
    """A child ended or was not ready in time. The message ends with what it wrote last."""


class Child:
    """One `warmroute` command in a process of its own; its output goes to a file and is shown only if it fails.

    It does not inherit the user's WARMROUTE_ variables: what is started here is configured here.

    Starting does not await anything, so that no signal can come between the start and the place where it is noted.
    """

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.name = arguments[0]
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own command
                [sys.executable, "-m", "warmroute", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if not name.startswith("WARMROUTE_")},
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def last_words(self) -> list[str]:
        """The last lines that it wrote."""
        return self._log.read_text(errors="replace").strip().splitlines()[-15:]

    def stop(self) -> None:
        """End the process: politely, then by force. Returns when it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Children:
    """Starts children and, on leaving the `with` block, stops all of them, the last one first."""

    def __init__(self, log_directory: Path) -> None:
        self._directory = log_directory
        self._children: list[Child] = []
        self._stack = ExitStack()

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, *arguments: str) -> Child:
        """Start `warmroute` with these arguments."""
        child = Child(arguments, self._directory / f"{len(self._children)}-{arguments[0]}.log")
        self._stack.callback(child.stop)
        self._children.append(child)
        return child

    async def until(self, ready: Callable[[], Coroutine[Any, Any, bool]], seconds: float) -> None:
        """Wait until `ready` says so. Raises ChildError when a child ends before, or the time is over."""
        deadline = time.monotonic() + seconds
        while not await ready():
            for child in self._children:
                if child.exit_code is not None:
                    ended = f"warmroute {child.name} ended with exit code {child.exit_code}"
                    raise ChildError("\n".join([ended, *child.last_words()]))
            if time.monotonic() > deadline:
                words = [line for child in self._children for line in child.last_words()]
                raise ChildError("\n".join([f"not ready after {seconds:g} s", *words]))
            await asyncio.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]
