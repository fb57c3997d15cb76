"""The tables of docs/reference/faults.md, for the tests that hold the router to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"


@dataclass(frozen=True)
class WorkerFault:
    """A row of the first table."""

    name: str
    serving: str
    prefill: str
    none_left: str
    reason: str
    connection: str

    def follows(self, role: str) -> str:
        """What follows when a worker of this role does it."""
        return self.prefill if role == "prefill" else self.serving


@dataclass(frozen=True)
class ClientFault:
    """A row of the second table."""

    name: str
    requests: str
    status: str
    connection: str


def _rows(heading: str) -> list[list[str]]:
    section = _PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def worker_faults() -> list[WorkerFault]:
    """What workers do."""
    return [WorkerFault(*cells) for cells in _rows("A worker fails")]


def client_faults() -> list[ClientFault]:
    """What clients do."""
    return [ClientFault(*cells) for cells in _rows("A client fails")]
