"""What a log line looks like: text for people at a terminal, a JSON object for whoever collects lines."""

from __future__ import annotations

import json
import logging
from datetime import datetime

from warmroute.telemetry.log_flood import left_out


class LineFormatter(logging.Formatter):
    """`LEVEL time logger: message`, one line per record, a traceback below it where there is one."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(asctime)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Local time with its offset, in milliseconds."""
        return _time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Line breaks are escaped: a name that a client sent must not forge a log line."""
        message = super().formatMessage(record) + _more(record)
        return message.replace("\r", "\\r").replace("\n", "\\n")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; what is no ASCII is escaped, so that no name can break it."""
        fields = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() + _more(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _more(record: logging.LogRecord) -> str:
    count = left_out(record)
    return f" ({count} more like it were left out)" if count else ""
