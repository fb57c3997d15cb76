import pytest

from warmroute.engines.vitals import Vitals


def vitals(started_at: float | None, work_done: float | None) -> Vitals:
    return Vitals("vllm", None, started_at=started_at, work_done=work_done)


@pytest.mark.parametrize(
    ("earlier", "later", "restarted"),
    [
        ((100.0, 5.0), (100.0, 5.0), False),
        ((100.0, 5.0), (100.0, 9.0), False),
        ((100.0, 5.0), (101.5, 9.0), True),
        ((100.0, 5.0), (100.0, 4.0), True),
        ((None, 5.0), (100.0, 6.0), False),
        ((None, 5.0), (None, 0.0), True),
        ((None, None), (None, 0.0), False),
        ((100.0, None), (None, None), False),
    ],
)
def test_a_restart_shows_in_the_start_time_or_in_counters_that_fell(earlier, later, restarted):
    assert vitals(*later).restarted_since(vitals(*earlier)) is restarted
