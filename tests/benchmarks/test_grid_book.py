"""The book of a grid: what is in the file need not be computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.grid.book import Book
from benchmarks.grid.cells import Cell, Figures, Setting

SETTING = Setting(Path("traces"), "synthetic", "grid", 8)
CELL = Cell(SETTING, 0.7, 3.5, 1, "lmetric")
FIGURES = Figures(0.5, 2.0, 0.25, 1.1)


def test_a_new_book_knows_nothing(tmp_path: Path):
    book = Book(tmp_path / "book")
    assert book.rate(SETTING) is None
    assert book.figures(CELL) is None


def test_what_was_written_is_known_again(tmp_path: Path):
    book = Book(tmp_path / "book")
    book.add_rate(SETTING, 5.0)
    book.add_figures(CELL, FIGURES)
    for known in (book, Book(tmp_path / "book")):
        assert known.rate(SETTING) == 5.0
        assert known.figures(CELL) == FIGURES
        assert known.rate(replace(SETTING, half="tuning")) is None
        assert known.figures(replace(CELL, seed=2)) is None
        assert known.figures(replace(CELL, policy="preble")) is None


def test_without_a_file_it_keeps_things_in_memory():
    book = Book(None)
    book.add_figures(CELL, FIGURES)
    assert book.figures(CELL) == FIGURES
