"""Limits for each key: never more than they say, never less for long, and no key at the cost of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.access.key_limits import KeyLimits


def limits(keys: int = 1, rate: float = 0, burst: int = 1, inflight: int = 0) -> KeyLimits:
    return KeyLimits(keys, rate=rate, burst=burst, inflight=inflight)


def test_a_burst_and_then_the_rate() -> None:
    bucket = limits(rate=2, burst=3)
    assert [bucket.enter(0, 10.0) is None for _ in range(4)] == [True, True, True, False]
    refused = bucket.enter(0, 10.0)
    assert refused is not None
    assert (refused.reason, refused.retry_after) == ("This API key may ask 2 times a second", 1)
    assert bucket.enter(0, 10.49) is not None
    assert bucket.enter(0, 10.5) is None
    assert [bucket.enter(0, 1000.0) is None for _ in range(4)] == [True, True, True, False]


def test_a_slow_rate_tells_how_long() -> None:
    bucket = limits(rate=0.1)
    assert bucket.enter(0, 0.0) is None
    refused = bucket.enter(0, 1.0)
    assert refused is not None
    assert refused.retry_after == 9


def test_requests_at_once() -> None:
    gate = limits(inflight=2)
    assert gate.enter(0, 0) is None
    assert gate.enter(0, 0) is None
    refused = gate.enter(0, 0)
    assert refused is not None
    assert "2 requests of this API key are running" in refused.reason
    gate.leave(0)
    assert gate.enter(0, 0) is None


def test_a_request_that_is_refused_for_one_limit_costs_nothing_of_the_other() -> None:
    both = limits(rate=1, burst=2, inflight=1)
    assert both.enter(0, 0.0) is None
    for _ in range(5):
        assert both.enter(0, 0.0) is not None
    both.leave(0)
    assert both.enter(0, 0.0) is None


def test_keys_do_not_share() -> None:
    two = limits(keys=2, rate=1, inflight=1)
    assert two.enter(0, 0) is None
    assert two.enter(1, 0) is None
    assert two.enter(0, 0) is not None


def test_without_limits_everything_comes() -> None:
    none = limits()
    assert all(none.enter(0, 0) is None for _ in range(1000))


@given(
    rate=st.floats(0.1, 100),
    burst=st.integers(1, 10),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=100),
)
def test_over_any_time_no_more_come_than_burst_and_rate_allow(rate, burst, pauses) -> None:
    bucket = limits(rate=rate, burst=burst)
    now, admitted = 100.0, []
    for pause in pauses:
        now += pause
        if bucket.enter(0, now) is None:
            admitted.append(now)
    for first in range(len(admitted)):
        for last in range(first, len(admitted)):
            allowed = burst + (admitted[last] - admitted[first]) * rate
            assert last - first + 1 <= allowed + 1e-6


@given(steps=st.lists(st.booleans(), max_size=60), inflight=st.integers(1, 5))
def test_as_many_run_as_were_let_in_and_not_ended(steps, inflight) -> None:
    gate, running = limits(inflight=inflight), 0
    for is_new in steps:
        if is_new:
            let_in = gate.enter(0, 0) is None
            assert let_in == (running < inflight)
            running += let_in
        elif running:
            gate.leave(0)
            running -= 1


def test_a_clock_that_stands_still_or_is_asked_out_of_order_gives_nothing_twice() -> None:
    bucket = limits(rate=1, burst=1)
    assert bucket.enter(0, 5.0) is None
    assert bucket.enter(0, 4.0) is not None
    assert bucket.enter(0, 5.0) is not None
    assert bucket.enter(0, 6.0) is None


@pytest.mark.parametrize("burst", [0, 1])
def test_at_least_one_request_fits_into_a_bucket(burst) -> None:
    assert limits(rate=0.001, burst=burst).enter(0, 0) is None
