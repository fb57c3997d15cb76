"""What has been computed, as JSON lines: a grid that was cut short goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.grid.cells import Cell, Figures, Setting


class Book:
    """Rates and figures, kept in a file if there is one. The file is of one state of the code: nothing checks that."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rates: dict[tuple[Any, ...], float] = {}
        self._figures: dict[tuple[Any, ...], Figures] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def rate(self, setting: Setting) -> float | None:
        """The saturation rate, if it is known."""
        return self._rates.get(_place(setting))

    def figures(self, cell: Cell) -> Figures | None:
        """The figures of a cell, if they are known."""
        return self._figures.get((*_place(cell.setting), cell.load, cell.seed, cell.policy))

    def add_rate(self, setting: Setting, rate: float) -> None:
        """Keep a saturation rate."""
        self._write({"place": _place(setting), "rate": rate})

    def add_figures(self, cell: Cell, figures: Figures) -> None:
        """Keep the figures of a cell."""
        key = (*_place(cell.setting), cell.load, cell.seed, cell.policy)
        self._write({"cell": key, **asdict(figures)})

    def _write(self, row: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        if "rate" in row:
            self._rates[tuple(row["place"])] = row["rate"]
        else:
            key = tuple(row.pop("cell"))
            self._figures[key] = Figures(**row)


def _place(setting: Setting) -> tuple[Any, ...]:
    return (setting.trace, setting.half, setting.workers)
