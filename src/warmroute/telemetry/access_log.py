"""The access log: one JSON line for every inference request, written beside the event loop.

A line is rendered where the request ends, and kept until a thread writes it with its neighbours a moment later: the
event loop never waits for a disk. What is kept is bounded; lines beyond that are dropped and counted. Before each
write the file is opened anew if it has been moved or removed, so that rotating it takes no signal.

With prefixes a line tells which prompts began alike, without their text: the hashes of the ladder, each under a keyed
BLAKE2b whose key is random, never written and gone with the process. Without it nobody can check a guess.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.json import Encoder

from warmroute.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

STDOUT = "stdout"
FLUSH_SECONDS = 0.2
"""How long a line may wait for others to be written with."""
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""So much is kept while the disk is slow."""


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


class LogFile:
    """A file that is appended to, also after it was rotated away, or standard output."""

    def __init__(self, target: str) -> None:
        """Open it. Raises AccessLogError."""
        self._path = None if target == STDOUT else Path(target)
        self._file: BinaryIO | None = None
        try:
            self._opened()
        except OSError as error:
            raise AccessLogError(f"--access-log {target}: {error.strerror or error}") from error

    def write(self, data: bytes) -> None:
        """Append; to be called in a thread. Raises OSError."""
        # Nothing is buffered here: what a full disk did not take must not be in the way of what comes later.
        file = self._opened()
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self._path is not None:
            self._file.close()
        self._file = None

    def _opened(self) -> BinaryIO:
        file, path = self._file, self._path
        if path is None:
            return sys.stdout.buffer
        if file is not None and _is_at(file, path):
            return file
        self.close()
        self._file = file = path.open("ab", buffering=0)
        return file


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))


class AccessLog:
    """Takes lines on the event loop and has them written by a thread of its own."""

    def __init__(
        self, file: LogFile, metrics: Metrics, *, prefixes: bool = False, block_tokens: int | None = None
    ) -> None:
        self.prefixes = prefixes
        self.block_tokens = block_tokens if prefixes else None
        self._metrics = metrics
        self._file = file
        self._encode = Encoder().encode
        self._key = os.urandom(32)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._writing = False
        self._trouble = ""
        self._thread = ThreadPoolExecutor(1, "access log")

    def keyed(self, fingerprint: Sequence[int]) -> list[str]:
        """The hashes of a prompt under this log's key, as 16 hexadecimal digits each."""
        key = self._key
        return [blake2b(h.to_bytes(8, "little"), digest_size=8, key=key).hexdigest() for h in fingerprint]

    def add(self, line: Line) -> None:
        """Have a line written soon. To be called on the event loop."""
        data = self._encode(line)
        if self._pending_bytes + len(data) >= MAX_PENDING_BYTES:
            self._metrics.access_lines_lost += 1
            return
        self._pending.append(data)
        self._pending_bytes += len(data) + 1
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    async def close(self) -> None:
        """Write what is left, and close the file."""
        lines = self._taken()
        if lines:
            # One thread, so this comes after what is under way.
            await asyncio.wait([self._write(lines)])
        self._thread.shutdown()
        self._file.close()

    def _flush(self) -> None:
        lines = self._taken()
        if lines:
            self._write(lines)
        else:
            self._writing = False

    def _taken(self) -> list[bytes]:
        lines, self._pending = self._pending, []
        self._pending_bytes = 0
        return lines

    def _write(self, lines: list[bytes]) -> asyncio.Future[None]:
        data = b"\n".join(lines) + b"\n"
        written = asyncio.get_running_loop().run_in_executor(self._thread, self._file.write, data)
        written.add_done_callback(lambda done: self._written(done, len(lines)))
        return written

    def _written(self, done: asyncio.Future[None], lines: int) -> None:
        error = None if done.cancelled() else done.exception()
        trouble = "" if error is None else str(error)
        if error is not None:
            self._metrics.access_lines_lost += lines
            if trouble != self._trouble:
                logger.error("the access log cannot be written: %s", trouble)
        self._trouble = trouble
        if self._pending:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)
        else:
            self._writing = False
