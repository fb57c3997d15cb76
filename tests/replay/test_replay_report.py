"""The page with plots: it stands alone, and its lines are the figures of the results."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from warmroute.replay.report.page import page
from warmroute.replay.report.series import first_token_distribution, hit_share, over_rate, waiting_tokens
from warmroute.replay.report.svg import Axis, line_plot
from warmroute.replay.report.table import COLUMNS, print_results
from warmroute.replay.request import Served
from warmroute.replay.result import Result


def result(policy: str = "p", rate: float = 1.0, requests: list[Served] | None = None) -> Result:
    if requests is None:
        requests = [Served(t, t + 0.5 + t / 100, t + 2.0, t % 2, 1000, 100 * (t % 10), 0, 10) for t in range(100)]
    return Result("a <trace>", policy, rate, 0, ["mixed-0", "mixed-1"], requests, 0, [1.0, 1.0], 0.1)


def test_the_distribution_goes_from_the_shortest_to_the_longest_wait() -> None:
    points = first_token_distribution(result())
    assert points[0] == (pytest.approx(0.5), 0.01)
    assert points[-1] == (pytest.approx(1.49), 1.0)
    assert points == sorted(points)


def test_what_waits_is_the_sum_of_what_has_no_first_token() -> None:
    requests = [Served(0.0, 10.0, 11.0, 0, 500, 0, 0, 1), Served(4.0, 8.0, 9.0, 0, 300, 100, 0, 1)]
    points = waiting_tokens(result(requests=requests))
    assert max(tokens for _, tokens in points) == 700
    assert next(tokens for at, tokens in points if at > 1.0) == 500


def test_hits_are_by_the_time_of_arrival() -> None:
    requests = [Served(float(t), t + 1.0, t + 2.0, 0, 100, 90 if t >= 50 else 10, 0, 1) for t in range(101)]
    points = hit_share(result(requests=requests))
    assert [round(share, 2) for at, share in points if at < 49] == pytest.approx([0.1] * 19)
    assert points[-1][1] == 0.9


def test_a_sweep_is_ordered_by_rate() -> None:
    rates = [rate for rate, _ in over_rate([result(rate=3.0), result(rate=1.0), result(rate=2.0)], "p99")]
    assert rates == [1.0, 2.0, 3.0]


@given(low=st.floats(1e-3, 1e5), times=st.one_of(st.floats(1.0, 1.3), st.floats(1.0, 1e6)))
def test_a_logarithmic_axis_tells_at_least_two_values(low: float, times: float) -> None:
    x, y = Axis("rate"), Axis("seconds", logarithmic=True, from_zero=False)
    svg = line_plot("t", {"p": [(1.0, low), (2.0, low * times)]}, x, y)
    assert svg.count("text-anchor=end>") >= 2


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else() -> None:
    text = page([result(policy, rate) for rate in (1.0, 2.0) for policy in ("one", "other<b>")])
    elements = Elements()
    elements.feed(text)
    assert elements.links == []
    assert "url(" not in text
    assert "script" not in elements.seen
    assert "b" not in elements.seen
    # Two of the sweep, three for each rate.
    assert elements.seen.count("svg") == 8
    assert elements.seen.count("table") == 2
    assert "a &lt;trace&gt;, x2: 100 requests, 2 mixed engines" in text


def test_one_rate_has_no_sweep_and_no_requests_no_plots() -> None:
    assert page([result()]).count("<svg") == 3
    assert page([result(requests=[])]).count("<svg") == 0


@pytest.mark.parametrize("points", [[(1.0, 5.0)], [(0.0, 0.0), (1.0, 0.0)], [(1e-3, 1.0), (100.0, 2.0)]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_any_points_can_be_plotted(points: list[tuple[float, float]], logarithmic: bool) -> None:
    svg = line_plot("t", {"line": points}, Axis("x", logarithmic), Axis("y", logarithmic))
    coordinates = svg.split('points="')[1].split('"')[0].replace(",", " ").split()
    assert all(0 <= float(number) <= 560 for number in coordinates)


@pytest.mark.parametrize(("width", "parts"), [(80, 3), (132, 1)])
def test_a_table_that_is_too_wide_comes_in_parts_and_nothing_is_cut(width: int, parts: int) -> None:
    console = Console(width=width)
    with console.capture() as shown:
        print_results(console, [result("remote_cache_aware"), result("cache_aware")])
    text = shown.get()
    assert "…" not in text
    assert all(heading in text for heading, _ in COLUMNS)
    assert text.count("remote_cache_aware") == parts
    assert text.count("2 mixed engines") == 1
