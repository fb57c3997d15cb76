"""A bound on what one line of code may log: what goes wrong with every request must not fill a disk."""

from __future__ import annotations

import logging

MOST_LINES = 60
WINDOW_SECONDS = 10.0
_MARK = "warmroute_left_out"


class FloodGuard(logging.Filter):
    """Lets MOST_LINES warnings and errors of one place in the code pass in WINDOW_SECONDS.

    The first line of the next window tells how many were left out. Lines below a warning pass: nothing writes those
    for every request unless it was asked to. There are as many entries as places that log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written. Time is the record's own."""
        if record.levelno < logging.WARNING:
            return True
        place = self._places.setdefault((record.pathname, record.lineno), _Place(record.created))
        if record.created - place.since >= WINDOW_SECONDS:
            setattr(record, _MARK, place.lines - MOST_LINES)
            place.since, place.lines = record.created, 0
        place.lines += 1
        return place.lines <= MOST_LINES


def left_out(record: logging.LogRecord) -> int:
    """How many lines of the same place were left out before this one."""
    return max(0, getattr(record, _MARK, 0))


class _Place:
    __slots__ = ("lines", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = 0
