"""Where log lines go, and from which level on. Bodies and prompts are never logged, here or elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from warmroute.config.tree import LogConfig
from warmroute.telemetry.log_file import AppendedFile, LineWriter
from warmroute.telemetry.log_flood import FloodGuard
from warmroute.telemetry.log_format import JsonFormatter, LineFormatter

LOG_FILE = Path("logs/router.log")

_ROOT = "warmroute"
# The root logger belongs to whoever embeds the router. uvicorn.error is where the HTTP server reports.
_LOGGERS = (_ROOT, "uvicorn.error")
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logging(log: LogConfig) -> None:
    """Send the router's log lines, and the HTTP server's, where `log` says. A second call replaces the first.

    Raises OSError when the log file cannot be opened.
    """
    handler = _handler(log)
    handler.addFilter(FloodGuard())
    levels = dict(_module_levels(log))
    for name in _LOGGERS:
        target = logging.getLogger(name)
        for old in target.handlers[:]:
            if any(isinstance(filter_, FloodGuard) for filter_ in old.filters):
                target.removeHandler(old)
                old.close()
        target.addHandler(handler)
        target.setLevel(_level(name, log.level))
        target.propagate = False
    _set_module_levels(levels)


def _module_levels(log: LogConfig) -> Iterator[tuple[str, int]]:
    for entry in log.levels:
        module, _, level = entry.partition("=")
        yield f"{_ROOT}.{module}", _LEVELS[level]


def _set_module_levels(levels: Mapping[str, int]) -> None:
    for name, known in list(logging.root.manager.loggerDict.items()):
        # A level of an earlier call; the loggers of a library take theirs from the root of all.
        if name.startswith(f"{_ROOT}.") and isinstance(known, logging.Logger):
            known.setLevel(logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _level(logger_name: str, level: str) -> int:
    """The HTTP server's own notes (it started, it waits) repeat ours: only its warnings count, unless debugging."""
    lowest = _LEVELS[level]
    return lowest if logger_name == _ROOT or lowest == logging.DEBUG else max(lowest, logging.WARNING)


def _handler(log: LogConfig) -> logging.Handler:
    handler: logging.Handler
    if log.output == "file":
        handler = _FileHandler(LOG_FILE, log.max_file_mb * 1024 * 1024, log.kept_files)
        is_terminal = False
    else:
        stream: TextIO = sys.stdout if log.output == "stdout" else sys.stderr
        handler = logging.StreamHandler(stream)
        is_terminal = stream.isatty()
    is_text = is_terminal if log.format == "auto" else log.format == "text"
    handler.setFormatter(LineFormatter() if is_text else JsonFormatter())
    return handler


class _FileHandler(logging.Handler):
    """Nobody who logs waits for the disk; `flush` does."""

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = LineWriter(AppendedFile(path, max_bytes=max_bytes, kept=kept), "log", _tell_of_trouble)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
        else:
            self._writer.add(line.encode("utf-8", "backslashreplace") + b"\n")

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
        super().close()


def _tell_of_trouble(why: str) -> None:
    # Of all places not the log.
    sys.stderr.write(f"warmroute: {LOG_FILE} cannot be written: {why}\n")
