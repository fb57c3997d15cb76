"""Runs a coroutine that Ctrl-C and SIGTERM end in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""How a shell reports a process that one of these signals ended."""


async def until_signal(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Run `work` to its end, or cancel it at the first SIGINT or SIGTERM and return which one came.

    A second signal while the cancelled work cleans up changes nothing. Errors of `work` are raised.
    """
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:
            received.append(number)
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in EXIT_CODES:
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    finally:
        for number in EXIT_CODES:
            loop.remove_signal_handler(number)
    return received[0] if received else None
