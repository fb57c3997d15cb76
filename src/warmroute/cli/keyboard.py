"""Single keys from the terminal, without waiting for a line to be finished."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections import deque
from types import TracebackType
from typing import Self

# What terminals send for the keys that are no characters (ECMA-48, in xterm's two modes).
_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
}
# A control sequence is one key, and so is an escape that none follows.
_KEY = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?|.", re.DOTALL)


class Keyboard:
    """Inside the block keys come one by one and are not echoed; after it the terminal is as it was."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._keys: deque[str] = deque()

    def __enter__(self) -> Self:
        """Take over the keyboard. Raises termios.error when stdin is no terminal."""
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Give it back."""
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def key(self, timeout: float) -> str:
        """The next key, by its name or as the character that it is; "" when none came within `timeout` seconds.

        Raises EOFError when the terminal is gone.
        """
        if not self._keys and select.select([self._fd], [], [], timeout)[0]:
            sent = os.read(self._fd, 64)
            if not sent:
                raise EOFError
            self._keys.extend(keys_of(sent))
        return self._keys.popleft() if self._keys else ""


def keys_of(sent: bytes) -> list[str]:
    """The keys that made the terminal send this: one read may bring several."""
    return [_NAMES.get(key) or key.decode("ascii", "replace") for key in _KEY.findall(sent)]
