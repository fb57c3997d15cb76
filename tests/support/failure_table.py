"""The table of docs/reference/pd-failures.md, for the tests that hold the router to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pd-failures.md"
_LINE = re.compile(r"^\| (prefill|decode) \| (\w+) \| (nothing|bytes) \| ([^|]+?) \|(?: ([^|]+?))? \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One row; `event` is a status where a worker answers one."""

    leg: str
    event: int | str
    has_bytes: bool
    follows: str
    none_left: str

    def __str__(self) -> str:
        return f"{self.leg} {self.event} {'bytes' if self.has_bytes else 'nothing'}"


def read_rows() -> list[Row]:
    """All rows."""
    return [
        Row(leg, int(event) if event.isdigit() else event, has == "bytes", follows, none_left or "")
        for leg, event, has, follows, none_left in _LINE.findall(_PAGE.read_text(encoding="utf-8"))
    ]
