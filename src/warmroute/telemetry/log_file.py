"""Files that lines are appended to, without anybody waiting for a disk.

A `LineWriter` takes lines and has a thread write them a moment later, with those that came meanwhile. What waits is
bounded; lines beyond that, and those that the file did not take, are lost and counted. An `AppendedFile` is opened anew
when somebody has moved or removed it (logrotate does), and may move itself away when it is full.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

FLUSH_SECONDS = 0.2
"""How long a line may wait for others to be written with."""
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""So much is kept while the disk is slow."""


class AppendedFile:
    """A file, or standard output. Moves a full file to `.1`, `.2` and so on, and keeps so many of them."""

    def __init__(self, path: Path | None, *, max_bytes: int = 0, kept: int = 0) -> None:
        """Open it. `path` None: standard output. `max_bytes` 0: no bound. Raises OSError."""
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file: BinaryIO | None = None
        self._size = 0
        self._opened()

    def write(self, lines: Sequence[bytes]) -> str:
        """Append them, in whole lines to each file. Raises OSError; what came before the trouble is in the file.

        Returns why a full file could not be moved away, if so: it takes them all the same.
        """
        trouble = ""
        batch: list[bytes] = []
        self._opened()
        size = self._size
        for line in lines:
            if self._max_bytes and size and size + len(line) > self._max_bytes and not trouble:
                self._append(b"".join(batch))
                batch, size = [], 0
                try:
                    self._move()
                except OSError as error:
                    trouble = str(error)
            batch.append(line)
            size += len(line)
        self._append(b"".join(batch))
        return trouble

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self._path is not None:
            self._file.close()
        self._file = None

    def _append(self, data: bytes) -> None:
        # Nothing is buffered here: what a full disk did not take must not be in the way of what comes later.
        file = self._opened()
        rest = memoryview(data)
        try:
            while rest:
                written = file.write(rest)
                self._size += written
                rest = rest[written:]
            file.flush()
        except OSError:
            self.close()  # it may end in the middle of a line now, which is seen to when it is opened
            raise

    def _move(self) -> None:
        path = self._path
        if path is None:
            return
        self.close()
        if self._kept:
            for number in range(self._kept - 1, 0, -1):
                older = _numbered(path, number)
                if older.exists():
                    older.replace(_numbered(path, number + 1))
            path.replace(_numbered(path, 1))
        else:
            path.unlink()

    def _opened(self) -> BinaryIO:
        file, path = self._file, self._path
        if path is None:
            return sys.stdout.buffer
        if file is not None and _is_at(file, path):
            return file
        self.close()
        self._file = file = path.open("ab", buffering=0)
        self._size = os.fstat(file.fileno()).st_size
        if self._size and not _ends_a_line(path):
            self._size += file.write(b"\n")  # whoever wrote it was killed, or the disk was full
        return file


class LineWriter:
    """Takes lines and has them written by a thread of its own. `add` is for one thread at a time."""

    def __init__(
        self, file: AppendedFile, name: str, on_trouble: Callable[[str], None], delay: float = FLUSH_SECONDS
    ) -> None:
        """`on_trouble` hears, in the thread, why lines cannot be written: once until that changes."""
        self._file = file
        self._on_trouble = on_trouble
        self._delay = delay
        self._pending: deque[bytes] = deque()
        # Each is counted up by one side only, so that no lock is needed.
        self._taken_bytes = self._done_bytes = 0
        self._refused = self._failed = 0
        self._trouble = ""
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._progress = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Lines that were not written."""
        return self._refused + self._failed

    def add(self, line: bytes) -> None:
        """Have a line, with its end, written soon."""
        if self._taken_bytes - self._done_bytes + len(line) > MAX_PENDING_BYTES:
            self._refused += 1
            return
        self._taken_bytes += len(line)
        self._pending.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until what was added before has been written, or was lost; at most `timeout` seconds."""
        until = self._taken_bytes
        self._hurry.set()
        self._wake.set()
        with self._progress:
            self._progress.wait_for(lambda: self._done_bytes >= until, timeout)

    def close(self) -> None:
        """Write what is left, end the thread and close the file; idempotent."""
        self._ended = True
        self._hurry.set()
        self._wake.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while not self._ended:
            self._wake.wait()
            self._hurry.wait(self._delay)
            self._wake.clear()
            self._hurry.clear()
            self._write_pending()
        self._write_pending()

    def _write_pending(self) -> None:
        lines = [self._pending.popleft() for _ in range(len(self._pending))]
        if not lines:
            return
        trouble = ""
        try:
            trouble = self._file.write(lines)
        except Exception as error:  # OSError, or whatever standard output raises that was closed or replaced
            trouble = str(error) or repr(error)
            self._failed += len(lines)
        told, self._trouble = self._trouble, trouble
        if trouble and trouble != told:
            # The place for complaints may be broken as well: a log on the same disk, or a pipe that nobody reads.
            with contextlib.suppress(Exception):
                self._on_trouble(trouble)
        with self._progress:
            self._done_bytes += sum(map(len, lines))
            self._progress.notify_all()


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _ends_a_line(path: Path) -> bool:
    """Whether the last line of a file with something in it is whole; if that cannot be told, it is taken to be."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(file.fileno()))
