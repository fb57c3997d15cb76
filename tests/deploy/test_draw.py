"""The dashboard as it is drawn without Grafana: its numbers, axes and gaps."""

from __future__ import annotations

import re
import sys

import pytest
from deploy.grafana.draw import expression, ids, legend, main, minutes, plot, shown, ticks
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "s", "0"),
        (0.00012, "s", "120 µs"),
        (0.0234, "s", "23.4 ms"),
        (2.5, "s", "2.5 s"),
        (0.034, "percentunit", "3.4%"),
        (0.934, "percentunit", "93%"),
        (3 * 2**20, "bytes", "3 MiB"),
        (8.53, "reqps", "8.53 req/s"),
        (1500, "short", "1.5 K"),
    ],
)
def test_a_value_is_short_and_has_its_unit(value: float, unit: str, text: str):
    assert shown(value, unit) == text


@given(st.floats(min_value=1e-6, max_value=1e12), st.sampled_from(["short", "bytes", "s"]))
def test_an_axis_goes_from_0_past_the_highest_value_in_few_equal_steps(top: float, unit: str):
    levels = ticks(top, unit)
    assert levels[0] == 0
    assert levels[-1] >= top * 0.999
    assert 2 <= len(levels) <= 10
    assert levels == pytest.approx([number * levels[1] for number in range(len(levels))])


def test_a_gap_in_the_data_is_a_gap_in_the_curve():
    points = [(0.0, 1.0), (5.0, 2.0), (60.0, 1.0), (65.0, 2.0)]
    svg = plot([("a", points)], "short", 400, 100, 0.0, 300.0)
    (curve,) = re.findall(r'<path d="([^"]*)" fill="none"', svg)
    assert (curve.count("M"), curve.count("L")) == (2, 2)


def test_variables_and_labels_are_filled_in():
    assert expression('rate(a{instance=~"$instance"}[$__rate_interval])', 2.0) == 'rate(a{instance=~".*"}[20s])'
    assert expression("a[$__rate_interval]", 60.0) == "a[65s]"
    assert legend("{{role}} {{state}}", {"role": "mixed", "state": "healthy"}) == "mixed healthy"


def test_the_time_axis_has_full_minutes():
    assert list(minutes(61.0, 360.0)) == [120.0, 180.0, 240.0, 300.0, 360.0]


def test_panels_are_picked_by_the_first_and_the_last_id():
    assert list(ids("3-5")) == [3, 4, 5]
    assert list(ids("7")) == [7]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["http://127.0.0.1:9"], "no Prometheus answers at http://127.0.0.1:9 "),
        (["127.0.0.1:9090"], "no Prometheus answers at 127.0.0.1:9090 "),
        (["prometheus"], "expected: http://127.0.0.1:9090"),
        (["http://127.0.0.1:9", "--panels", "9999"], "--panels: there is no panel with such an id"),
        (["http://127.0.0.1:9", "--panels", "a-b"], "--panels: must be like 1-17, not 'a-b'"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_a_line(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["draw.py", arguments[0], str(tmp_path / "page.html"), *arguments[1:]])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
