"""A log file that never grows beyond its size, and that lets others move it away."""

from __future__ import annotations

import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path


class LogFile(RotatingFileHandler):
    """Moves a full file to `.1`, `.2` and so on, and keeps so many of them. A file that somebody else moved or removed
    (logrotate does) is opened anew.
    """

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        """`max_bytes` 0: no bound. Raises OSError when the file cannot be opened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=max_bytes, backupCount=kept, encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, into a file that is still where it belongs."""
        stream = self.stream
        if stream is not None and self._was_moved(stream.fileno()):
            stream.close()
            self.stream = self._open()
        super().emit(record)

    def _was_moved(self, descriptor: int) -> bool:
        try:
            there = os.stat(self.baseFilename)
        except OSError:
            return True
        return not os.path.samestat(there, os.fstat(descriptor))
