"""What is shown of a run, on a terminal and elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from warmroute.simulation.load.progress import LoadProgress
from warmroute.simulation.load.records import Record, summarise
from warmroute.simulation.load.report import print_table


def shown(**options: object) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=100, **options), text


def test_runs_stand_side_by_side():
    records = [Record(None, 0.0123, 0.5, 100, 82, 10, worker) for worker in ("a", "a", "b")]
    console, text = shown()
    runs = {"one": summarise(records, 1.0, 3), "two": summarise([Record("timeout")], 1.0, 2)}
    print_table(console, runs, "title")
    rows = {
        cells[1].strip(): [c.strip() for c in cells[2:4]]
        for line in text.getvalue().splitlines()
        if (cells := line.split("│"))[1:]
    }
    assert rows["requests"] == ["3", "1"]
    assert rows["timeout"] == ["0", "1"]
    assert rows["not sent"] == ["0", "1"]
    assert rows["cached share of prompt"] == ["82.0%", "-"]
    assert rows["TTFT p50 / p90 / p99, ms"] == ["12 / 12 / 12", "-"]
    assert rows["requests per worker"] == ["2 1", "-"]


def test_elsewhere_than_on_a_terminal_progress_is_a_line_a_quarter():
    console, text = shown()
    with LoadProgress(console, "load", 10) as progress:
        for _ in range(9):
            progress.update(Record())
        progress.update(Record("timeout"))
    assert text.getvalue().splitlines() == [
        "load: 3 of 10 requests",
        "load: 5 of 10 requests",
        "load: 8 of 10 requests",
        "load: 10 of 10 requests 1 failed",
    ]


def test_on_a_terminal_progress_is_a_bar():
    console, text = shown(force_terminal=True)
    with LoadProgress(console, "load", 2) as progress:
        progress.update(Record())
        progress.update(Record("timeout"))
    assert "2/2" in text.getvalue()
    assert "1 failed" in text.getvalue()
