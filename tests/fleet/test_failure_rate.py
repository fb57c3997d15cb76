from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.failure_rate import FailureRate


def test_it_counts_within_the_window():
    rate = FailureRate(10.0)
    rate.add(0.0, failed=True)
    rate.add(4.0, failed=False)
    rate.add(6.0, failed=True)
    assert (rate.failures, rate.total, rate.has_failures) == (2, 3, True)


@given(st.lists(st.tuples(st.floats(0.0, 12.0), st.booleans()), min_size=1, max_size=50))
def test_it_covers_at_least_half_a_window_and_at_most_a_whole_one(steps):
    rate = FailureRate(10.0)
    now, seen = 0.0, []
    for seconds, failed in steps:
        now += seconds
        rate.add(now, failed=failed)
        seen.append((now, failed))
    # A request right at the edge may be on either side of it.
    least = [failed for at, failed in seen if now - at < 5.0 - 1e-9]
    most = [failed for at, failed in seen if now - at <= 10.0 + 1e-9]
    assert sum(least) <= rate.failures <= sum(most)
    assert len(least) <= rate.total <= len(most)
