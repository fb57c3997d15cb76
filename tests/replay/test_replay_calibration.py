"""A model is found again from what it would measure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.replay.calibration import Decoding, FirstToken, calibrated, fit
from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.run import run
from warmroute.replay.trace import Session, Trace, Turn

LIMITS = EngineModel(step_tokens=2048)
SHAPES = [(256, 0), (1024, 0), (2048, 0), (4096, 0), (64, 2048), (64, 4096), (512, 4096)]


@given(st.floats(1e-3, 3e-2), st.floats(1e-5, 1e-3), st.floats(0, 1e-7), st.floats(0, 1e-3), st.floats(0, 5e-2))
def test_a_model_is_found_from_its_own_times(
    step: float, prefill: float, attention: float, request: float, overhead: float
) -> None:
    model = EngineModel(step, prefill, attention, request, 0.0, overhead, 2048)
    times = [FirstToken(new, old, model.overhead + model.prefill_seconds(new, old)) for new, old in SHAPES]
    found = calibrated(times, [Decoding(batch, model.decode_step(batch, 0)) for batch in (1, 2, 4, 8)], LIMITS)
    for new, old in SHAPES:
        expected = model.overhead + model.prefill_seconds(new, old)
        assert found.overhead + found.prefill_seconds(new, old) == pytest.approx(expected, rel=1e-3)
    assert found.decode_step(3, 0) == pytest.approx(model.decode_step(3, 0), rel=1e-6)


def test_no_coefficient_is_below_zero() -> None:
    assert fit([[1, 1], [1, 2], [1, 3]], [3.0, 2.0, 1.0])[1] == 0.0


def test_too_little_is_refused() -> None:
    with pytest.raises(ValueError, match="three times to first token"):
        calibrated([FirstToken(1, 0, 1.0)] * 2, [Decoding(1, 1.0)], LIMITS)


def test_overhead_comes_on_top_of_the_steps() -> None:
    trace = Trace("one", [Session([Turn(1000, 3, [], [0])], 0.0)])
    waits = []
    for overhead in (0.0, 0.25):
        (served,) = run(trace, "round_robin", Fleet(1, EngineModel(overhead=overhead))).served
        waits.append(served.first_token - served.arrival)
    assert waits[1] - waits[0] == pytest.approx(0.25)
