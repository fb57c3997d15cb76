"""Numbers for people."""

from __future__ import annotations

import pytest

from warmroute.cli import figures


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (figures.count(0), "0"),
        (figures.count(999), "999"),
        (figures.count(1234), "1.23k"),
        (figures.count(56_789), "56.8k"),
        (figures.count(2_500_000), "2.50M"),
        (figures.count(3e9), "3.00G"),
        (figures.count(0.5), "0.50"),
        (figures.rate(4.75), "4.8"),
        (figures.rate(123.4), "123"),
        (figures.rate(12_345), "12.3k"),
        (figures.share(None), "-"),
        (figures.share(0.815), "82 %"),
        (figures.seconds(None), "-"),
        (figures.seconds(0.0001), "1 ms"),
        (figures.seconds(0.0421), "42 ms"),
        (figures.seconds(1.5), "1.50 s"),
        (figures.age(59), "59 s"),
        (figures.age(61), "1 min"),
        (figures.age(7260), "2 h 1 min"),
        (figures.age(3 * 86_400), "3 days"),
    ],
)
def test_three_digits_and_a_unit(shown: str, expected: str):
    assert shown == expected


def test_a_sparkline_shows_the_newest_on_the_right():
    assert figures.sparkline([9.0, 0.0, 4.0, None, 8.0], 4) == "▁▄ █"
    assert figures.sparkline([1.0], 3) == "  █"
    assert figures.sparkline([0.5], 1, top=1.0) == "▄"
    assert figures.sparkline([], 2) == "  "
    assert figures.sparkline([1.0], 0) == ""
