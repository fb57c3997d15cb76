"""cache_aware: the least work, in tokens, until the prompt is prefilled."""

from __future__ import annotations

import pytest
from tests.support.pools import choices, make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policies.cache_aware import CacheAware

PROMPT = Prompt(tokens=1000)


def test_a_warm_worker_is_worth_a_queue_as_long_as_its_match():
    """1000 - 800 uncached + 799 pending is one token better than a cold idle worker; 801 is one worse."""
    cold = make_worker("cold")
    assert choices(CacheAware(), [cold, make_worker("warm", matched=800, pending=799)], PROMPT, 20) == {"warm": 20}
    assert choices(CacheAware(), [cold, make_worker("warm", matched=800, pending=801)], PROMPT, 20) == {"cold": 20}


def test_a_running_request_weighs_125_tokens():
    cold = make_worker("cold")
    warm = make_worker("warm", matched=251, running=2)
    assert choices(CacheAware(), [cold, warm], PROMPT, 20) == {"warm": 20}
    warm.candidate.matched_tokens = 249
    assert choices(CacheAware(), [cold, warm], PROMPT, 20) == {"cold": 20}


def test_a_partial_match_beats_none():
    workers = [make_worker("cold"), make_worker("some", matched=100), make_worker("more", matched=101)]
    assert choices(CacheAware(), workers, PROMPT, 20) == {"more": 20}


@pytest.mark.parametrize(
    ("hit", "load", "expected"), [(1.0, 0.0, "warm"), (0.0, 1.0, "idle"), (0.3, 1.0, "idle"), (1.0, 0.3, "warm")]
)
def test_weights(hit: float, load: float, expected: str):
    workers = [make_worker("idle"), make_worker("warm", matched=800, pending=700, running=4)]
    assert choices(CacheAware(hit, load), workers, PROMPT, 20) == {expected: 20}


def test_a_tie_goes_either_way():
    workers = [make_worker("a"), make_worker("b"), make_worker("c", running=1)]
    picked = choices(CacheAware(), workers, PROMPT, 1000)
    assert picked["c"] == 0
    assert 430 < picked["a"] < 570


def test_thresholds_are_off_unless_set():
    workers = [make_worker("warm", matched=1000, running=7), make_worker("idle")]
    assert choices(CacheAware(), workers, PROMPT, 20) == {"warm": 20}


@pytest.mark.parametrize(
    ("absolute", "relative", "expected"),
    [
        (6, None, "idle"),
        (7, None, "warm"),
        (None, 0.9, "idle"),
        (None, 1.0, "warm"),
        (6, 0.9, "idle"),
        (7, 0.9, "warm"),
        (6, 1.0, "warm"),
        (0, 0, "idle"),
    ],
)
def test_process_tokens_decides_when_every_threshold_that_is_set_is_exceeded(
    absolute: float | None, relative: float | None, expected: str
):
    """Running requests 7 and 0: the spread is 7, and the whole of the busiest."""
    workers = [make_worker("warm", matched=1000, running=7, pending=1), make_worker("idle")]
    policy = CacheAware(balance_abs_threshold=absolute, balance_rel_threshold=relative)
    assert choices(policy, workers, PROMPT, 20) == {expected: 20}
