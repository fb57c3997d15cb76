"""What policies share."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.support.pools import make_worker, rows

from warmroute.scheduling.choosing import least, lopsided, polled_running, polled_waiting
from warmroute.scheduling.worker import EngineReport


@pytest.mark.parametrize(
    ("scores", "winners"),
    [
        ([3, 1, 2], "b"),
        ([1, 1, 2], "ab"),
        ([2, 1, 1], "bc"),
        ([1.0, 2, 1], "ac"),
        ([0, 0, 0], "abc"),
        ([5, 5, -1], "c"),
    ],
)
def test_the_lowest_score_wins_and_ties_are_uniform(scores: list[float], winners: str):
    candidates = rows(make_worker(name) for name in "abc")
    rng = Random(11)
    picked = Counter(least(candidates, scores, rng).worker.id for _ in range(1200))
    assert set(picked) == set(winners)
    share = 1200 / len(winners)
    assert all(0.85 * share < count < 1.15 * share for count in picked.values()) or len(winners) == 1


@pytest.mark.parametrize(
    ("loads", "absolute", "relative", "expected"),
    [
        ([9, 0], None, None, False),
        ([9], 0, 0, False),
        ([], 0, 0, False),
        ([0, 0], 0, 0, False),
        ([4, 4], 0, 0, False),
        ([3, 1], 1, None, True),
        ([3, 1], 2, None, False),
        ([10, 8], 1, 0.2, False),
        ([11, 8], 1, 0.2, True),
        ([2, 0], 1, 0.2, True),
        ([2, 0], 1, 1.0, False),
        ([100, 90], None, 0.05, True),
        ([100, 90], 10, 0.05, False),
    ],
)
def test_lopsided(loads: list[float], absolute: float | None, relative: float | None, expected: bool):
    assert lopsided(loads, absolute, relative) is expected


def test_polled_figures_fall_back_to_what_we_know():
    told = make_worker(running=2, report=EngineReport(running_requests=5, waiting_requests=3)).candidate
    silent = make_worker(running=2).candidate
    assert (polled_running(told), polled_waiting(told)) == (5, 3)
    assert (polled_running(silent), polled_waiting(silent)) == (2, 0)
