"""The formulas of the timing model, in numbers."""

import pytest

from warmroute.simulation.timing import Timing


def test_prefill_costs_what_is_not_cached():
    timing = Timing(prefill_speed=1000, latency=0.5)
    assert timing.prefill_seconds(2000) == 2.5
    assert timing.prefill_seconds(0) == 0.5


def test_a_step_slows_with_every_further_request():
    timing = Timing(decode_speed=10, batch_slowdown=0.5)
    assert [timing.step_seconds(batch) for batch in (1, 2, 3)] == pytest.approx([0.1, 0.15, 0.2])
