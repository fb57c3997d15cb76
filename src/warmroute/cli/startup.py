"""Signals that come while a command is still loading, before it has handlers of its own. Imports next to nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_quietly(exit_codes: Mapping[signal.Signals, int], unheard: Collection[signal.Signals] = ()) -> Iterator[None]:
    """Inside the block these signals end the process at once, without a word, until somebody else handles them.
    Those that are `unheard` come to nothing: whoever asks for a reload now gets what is being loaded.

    An exception would not do: it would come out of whatever import is under way, with a traceback or swallowed. Nothing
    that needs an orderly end may be begun before its own handlers are there. A signal that is ignored stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        os._exit(exit_codes[signal.Signals(number)])

    def go_on(*_: object) -> None:
        pass

    before = {number: signal.getsignal(number) for number in (*exit_codes, *unheard)}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, go_on if number in unheard else end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
