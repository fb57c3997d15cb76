"""However failures come, the retries of a slot stay within what the traffic before it allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.gateway.retry_budget import LEAST_PER_SECOND, SLOT_SECONDS, RetryBudget


def spent(budget: RetryBudget, now: float, requests: int, asked: int) -> int:
    return sum(budget.spend(now, requests) for _ in range(asked))


def test_little_traffic_may_retry_ten_times_a_second():
    budget = RetryBudget(0.2)
    assert spent(budget, 0.0, 1, 50) == 10
    assert spent(budget, 0.9, 2, 50) == 0
    assert spent(budget, 1.0, 3, 50) == 10


def test_much_traffic_may_retry_its_share():
    budget = RetryBudget(0.2)
    spent(budget, 0.0, 0, 1)
    assert spent(budget, 1.0, 1000, 500) == 200
    assert spent(budget, 3.0, 2000, 500) == 100, "1000 requests within two seconds"


def test_a_long_quiet_time_is_no_credit():
    budget = RetryBudget(0.2)
    spent(budget, 0.0, 0, 1)
    assert spent(budget, 3600.0, 3600 * 20, 500) == 10


@pytest.mark.parametrize("requests", [0, 10_000])
def test_zero_allows_nothing(requests):
    budget = RetryBudget(0.0)
    assert spent(budget, 0.0, 0, 10) == 0
    assert spent(budget, 1.0, requests, 10) == 0


steps = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500), st.integers(0, 300)), max_size=40)


@given(st.floats(0.01, 1), steps)
def test_retries_never_exceed_the_share_or_the_least(share, steps):
    budget = RetryBudget(share)
    now, requests, total = 0.0, 0, 0
    for pause, came, failed in steps:
        now += pause
        requests += came
        total += spent(budget, now, requests, failed)
    slots = now / SLOT_SECONDS + 1
    assert total <= LEAST_PER_SECOND * slots + share * requests
