"""Quantiles of bucketed observations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.telemetry.quantiles import quantile

BOUNDS = (1.0, 2.0, 4.0)


def test_no_observation_has_no_quantile():
    assert quantile(0.5, BOUNDS, [0, 0, 0, 0]) is None


@pytest.mark.parametrize(
    ("share", "counts", "expected"),
    [
        (0.5, [2, 0, 0, 0], 0.5),
        (0.5, [1, 1, 0, 0], 1.0),
        (0.5, [0, 0, 4, 0], 3.0),
        (0.99, [50, 0, 50, 0], 3.96),
        (0.99, [0, 0, 0, 7], 4.0),
    ],
)
def test_inside_a_bucket_observations_lie_evenly(share: float, counts: list[int], expected: float):
    assert quantile(share, BOUNDS, counts) == pytest.approx(expected)


@given(st.lists(st.floats(0.01, 4.0), min_size=1), st.floats(0.01, 1.0))
def test_it_is_in_the_bucket_of_the_true_value(values: list[float], share: float):
    counts = [0] * 4
    for value in values:
        counts[next(at for at, bound in enumerate(BOUNDS) if value <= bound)] += 1
    rank = min(len(values) - 1, max(0, -int(-share * len(values) // 1) - 1))
    true = sorted(values)[rank]
    at = next(at for at, bound in enumerate(BOUNDS) if true <= bound)
    estimate = quantile(share, BOUNDS, counts)
    assert estimate is not None
    assert (0.0, *BOUNDS)[at] <= estimate <= BOUNDS[at]
