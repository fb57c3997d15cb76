"""What `warmroute top` draws, as text of a given size."""

from __future__ import annotations

import pytest
from rich.console import Console

from warmroute.cli.router_view import Sample, State, Totals, Worker
from warmroute.cli.top_view import KEYS, SORTS, View, draw


def worker(number: int, **changes: object) -> Worker:
    values = {
        "id": f"10.0.0.{number:02d}:8000",
        "role": "mixed",
        "state": "healthy",
        "can_be_chosen": True,
        "running": number,
        "pending_prefill_tokens": 1000 - number,
        "requests_per_second": 1.0,
        "hit_share": number / 100,
        "ttft_seconds": 0.1,
    }
    return Worker(**(values | changes))  # type: ignore[arg-type]


def view_of(*workers: Worker, **changes: object) -> View:
    totals = Totals(len(workers), len(workers), 3, 500, 4.75, 0.0, 0.5, 0.042, 1.5)
    state = State("9.9.9", 61.0, "mixed", {"mixed": "cache_aware"}, True, totals, list(workers))
    return View("http://router:1", state, [Sample(1.0, 0.1, 0.5)] * 200, **changes)  # type: ignore[arg-type]


def screen(view: View, width: int = 100, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(draw(view, width, height))
    return captured.get().splitlines()


def test_the_fleet_and_every_worker_are_shown():
    lines = screen(view_of(worker(1), worker(2, state="draining", dialect="vllm"), worker(3, breaker="half_open")))
    text = "\n".join(lines)
    assert "SERVING" in lines[0]
    assert "up 1 min" in lines[0]
    assert "workers 3/3  req/s 4.8  running 3  TTFT p50 42 ms  p99 1.50 s  hits 50 %  waiting tokens 500" in text
    assert "10.0.0.02:8000" in text
    assert "draining" in text
    assert "breaker half open" in text
    assert lines[-1].startswith(KEYS)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("height", [10, 24, 60])
def test_it_fits_every_screen(width: int, height: int):
    lines = screen(view_of(*map(worker, range(64))), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any("10.0.0.00:8000" in line for line in lines)


def test_the_chosen_worker_is_always_on_the_screen():
    view = view_of(*map(worker, range(64)))
    for rows in (1, 40, 100, -30, -100):
        view.move(rows)
        chosen = view.chosen()
        assert chosen is not None
        assert any(chosen.id in line for line in screen(view, height=12))
    assert view.selected == 0


def test_sorting_goes_through_all_orders_and_the_cursor_stays_on_its_worker():
    view = view_of(worker(1), worker(2, hit_share=None), worker(3, ttft_seconds=None))
    view.move(1)
    chosen = view.chosen()
    firsts = []
    for _ in SORTS:
        view.next_sort()
        assert view.chosen() is chosen
        firsts.append((view.sort, view.workers()[0].running))
    assert firsts == [("running", 3), ("pending", 1), ("TTFT", 1), ("hits", 1), ("name", 1)]


def test_a_fleet_without_workers_can_be_looked_at():
    view = view_of()
    view.move(1)
    view.next_sort()
    assert view.chosen() is None
    assert "workers 0/0" in "\n".join(screen(view))


def test_trouble_is_told_and_the_last_figures_stay():
    lines = screen(view_of(worker(1), trouble="gone", message="gone"))
    assert "NO ANSWER" in lines[0]
    assert lines[-1].startswith("gone")
    assert "connecting" in "\n".join(screen(View("http://router:1")))


def test_errors_are_shown_when_there_are_any():
    view = view_of(worker(1))
    assert view.state is not None
    view.state.totals.errors_per_second = 0.5
    view.state.can_serve = False
    text = "\n".join(screen(view))
    assert "errors/s 0.5" in text
    assert "CANNOT SERVE" in text
