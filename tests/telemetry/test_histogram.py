import math

from hypothesis import given
from hypothesis import strategies as st

from warmroute.telemetry.histogram import BufferedHistogram, Histogram


@given(st.lists(st.floats(min_value=0, max_value=20)))
def test_every_value_is_in_the_first_bucket_that_holds_it(values):
    histogram = Histogram((1.0, 2.5, 10.0))
    for value in values:
        histogram.observe(value)
    at_most = [sum(value <= bound for value in values) for bound in histogram.bounds]
    assert [sum(histogram.counts[: index + 1]) for index in range(3)] == at_most
    assert (histogram.count, histogram.sum) == (len(values), sum(values))


_BOUNDS = (1.0, 2.5, 10.0)


@given(st.lists(st.one_of(st.sampled_from(("settle", *_BOUNDS)), st.floats(min_value=0, max_value=20))))
def test_values_that_were_put_down_first_are_counted_like_those_that_were_not(steps):
    at_once, later = Histogram(_BOUNDS), BufferedHistogram(_BOUNDS)
    for step in steps:
        if step == "settle":
            later.settle()
        else:
            at_once.observe(step)
            later.observe(step)
    assert (later.counts, later.count) == (at_once.counts, at_once.count)
    assert math.isclose(later.sum, at_once.sum)
