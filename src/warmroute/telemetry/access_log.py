"""The access log: one JSON line for every inference request, written beside the event loop.

A line is rendered where the request ends, and written by a thread (`log_file.py`): the event loop never waits for a
disk. Rotating the file takes no signal.

With prefixes a line tells which prompts began alike, without their text: the hashes of the ladder, each under a keyed
BLAKE2b whose key is random, never written and gone with the process. Without it nobody can check a guess.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct
from msgspec.json import Encoder

from warmroute.telemetry.log_file import FLUSH_SECONDS, AppendedFile, LineWriter
from warmroute.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

STDOUT = "stdout"


class Line(Struct, gc=False, omit_defaults=True):
    """One request that is over. What is not known is left out of the line.

    `time` is when the request was complete, in seconds since 1970; `ttft` and `duration` count from then. `worker` gave
    the answer, `prefill_worker` computed the prompt if it was another. `prompt_tokens` and `matched_tokens` are the
    router's estimates, `cached_tokens` and `output_tokens` the engine's own figures, where its answer has them; of a
    stream without them, output tokens are the pieces that came. `prefix` holds hashes of the ladder, shallowest first,
    whose blocks are `block_tokens` wide, or widen with depth.
    """

    time: float
    request_id: str
    path: str
    status: int
    outcome: str
    duration: float
    ttft: float | None = None
    worker: str | None = None
    prefill_worker: str | None = None
    policy: str | None = None
    model: str | None = None
    session_id: str | None = None
    prompt_tokens: int | None = None
    matched_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    block_tokens: int | None = None
    prefix: list[str] | None = None


class AccessLogError(Exception):
    """The access log cannot be written to; the text says why."""


def open_access_log(target: str) -> AppendedFile:
    """The file at a path, or standard output. Raises AccessLogError."""
    try:
        return AppendedFile(None if target == STDOUT else Path(target))
    except OSError as error:
        raise AccessLogError(f"--access-log {target}: {error.strerror or error}") from error


class AccessLog:
    """Takes lines on the event loop and has them written elsewhere."""

    def __init__(
        self,
        file: AppendedFile,
        metrics: Metrics,
        *,
        prefixes: bool = False,
        block_tokens: int | None = None,
        delay: float = FLUSH_SECONDS,
    ) -> None:
        self.prefixes = prefixes
        self.block_tokens = block_tokens if prefixes else None
        self._encode = Encoder().encode
        self._key = os.urandom(32)
        self._writer = LineWriter(file, "access log", _trouble, delay)
        metrics.lost_access_lines = lambda: self._writer.lost

    def keyed(self, fingerprint: Sequence[int]) -> list[str]:
        """The hashes of a prompt under this log's key, as 16 hexadecimal digits each."""
        key = self._key
        return [blake2b(h.to_bytes(8, "little"), digest_size=8, key=key).hexdigest() for h in fingerprint]

    def add(self, line: Line) -> None:
        """Have a line written soon. To be called on the event loop."""
        self._writer.add(self._encode(line) + b"\n")

    async def close(self) -> None:
        """Write what is left, and close the file."""
        await asyncio.to_thread(self._writer.close)


def _trouble(why: str) -> None:
    logger.error("the access log cannot be written: %s", why)
