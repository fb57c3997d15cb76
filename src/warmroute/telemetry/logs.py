"""Where log lines go and what they look like. Bodies and prompts are never logged, here or elsewhere."""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

from warmroute.config.tree import LogConfig

LOG_FILE = Path("logs/router.log")

# The root logger belongs to whoever embeds the router. uvicorn.error is where the HTTP server reports.
_LOGGERS = ("warmroute", "uvicorn.error")
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LineFormatter(logging.Formatter):
    """`LEVEL time logger: message`, one line per record, a traceback below it where there is one."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(asctime)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Local time with its offset, in milliseconds."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Line breaks are escaped: a name that a client sent must not forge a log line."""
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


def configure_logging(log: LogConfig) -> None:
    """Send the router's log lines, and the HTTP server's, where `log` says. A second call replaces the first.

    Raises OSError when the log file cannot be opened.
    """
    handler = _handler(log.output)
    handler.setFormatter(LineFormatter())
    for name in _LOGGERS:
        target = logging.getLogger(name)
        for old in target.handlers[:]:
            if isinstance(old.formatter, LineFormatter):
                target.removeHandler(old)
                old.close()
        target.addHandler(handler)
        target.setLevel(_level(name, log.level))
        target.propagate = False


def _level(logger_name: str, level: str) -> int:
    """The HTTP server's own notes (it started, it waits) repeat ours: only its warnings count, unless debugging."""
    lowest = _LEVELS[level]
    return lowest if logger_name == "warmroute" or lowest == logging.DEBUG else max(lowest, logging.WARNING)


def _handler(output: str) -> logging.Handler:
    if output == "file":
        LOG_FILE.parent.mkdir(parents=True, exist_ok=True)
        # Reopens the file when logrotate moved it away.
        return WatchedFileHandler(LOG_FILE, encoding="utf-8", errors="backslashreplace")
    return logging.StreamHandler(sys.stdout if output == "stdout" else sys.stderr)
