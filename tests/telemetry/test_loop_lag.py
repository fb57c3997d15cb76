import asyncio

from warmroute.telemetry.loop_lag import watch_loop_lag
from warmroute.telemetry.metrics import Metrics


async def test_a_sleep_that_is_too_long_is_recorded_by_how_much():
    metrics = Metrics()
    times = iter([10.0, 10.31, 20.0, 20.0])  # 0.3 s late, then (a clock that stood still) not early
    done = asyncio.Event()

    def clock() -> float:
        now = next(times, None)
        if now is None:
            done.set()
            return 0.0
        return now

    task = asyncio.create_task(watch_loop_lag(metrics, clock, 0.01))
    await asyncio.wait_for(done.wait(), 5)
    task.cancel()
    lag = metrics.loop_lag
    assert lag.counts[lag.bounds.index(0.5)] == 1
    assert lag.counts[0] >= 1
    assert 0.29 < lag.sum < 0.31
