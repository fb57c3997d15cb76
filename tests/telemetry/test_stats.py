import asyncio
import logging

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.stats import Snapshot, log_stats, render_stats, take_snapshot

NOTHING = Snapshot((), 0, 0, 0)


def test_the_line_has_the_contracts_form():
    now = Snapshot((("http://a:1", 2), ("http://b:1", 0)), 300, 900, 5)
    before = Snapshot((("http://a:1", 1), ("http://b:1", 1)), 200, 500, 2)
    assert render_stats(now, before) == (
        "[stats] total_running=2, workers: [http://a:1: running=2, http://b:1: running=0], "
        "cache_hit_rate=25.00% (hits=100/total=400)"
    )


def test_nothing_happened_is_no_line():
    now = Snapshot((("http://a:1", 2),), 300, 900, 5)
    assert render_stats(now, now) is None


def test_an_interval_without_prompts_has_no_hit_rate_to_divide():
    now = Snapshot((("http://a:1", 0),), 10, 20, 1)
    before = Snapshot((("http://a:1", 1),), 10, 20, 1)
    line = render_stats(now, before)
    assert line is not None
    assert line.endswith("cache_hit_rate=0.00% (hits=0/total=0)")


def test_a_snapshot_sorts_by_url_and_adds_workers_of_one_url():
    removed, again, other = Worker("b:1", "http://b:1"), Worker("b:1", "http://b:1"), Worker("a:1", "http://a:1")
    removed.load.running_requests, again.load.running_requests = 1, 2
    metrics = Metrics()
    metrics.answered += 1
    metrics.prompt_tokens += 8
    metrics.matched_tokens += 4
    assert take_snapshot(metrics, [removed, again, other]) == Snapshot((("http://a:1", 0), ("http://b:1", 3)), 4, 8, 1)


async def test_the_loop_logs_only_intervals_in_which_something_happened(caplog):
    metrics = Metrics()
    caplog.set_level(logging.INFO, "warmroute.telemetry.stats")
    task = asyncio.create_task(log_stats(metrics, list, 0.02))
    await asyncio.sleep(0.05)
    assert caplog.messages == []
    metrics.prompt_tokens += 10
    metrics.matched_tokens += 5
    async with asyncio.timeout(2):
        while not caplog.messages:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    task.cancel()
    assert caplog.messages == ["[stats] total_running=0, workers: [], cache_hit_rate=50.00% (hits=5/total=10)"]


async def test_interval_zero_means_no_lines():
    await asyncio.wait_for(log_stats(Metrics(), list, 0), 1)


async def test_an_unexpected_error_does_not_end_the_lines(caplog):
    metrics = Metrics()
    caplog.set_level(logging.INFO, "warmroute.telemetry.stats")
    broken = True

    def workers():
        if broken:
            raise RuntimeError("a bug")
        metrics.prompt_tokens += 10
        metrics.matched_tokens += 5
        return []

    task = asyncio.create_task(log_stats(metrics, workers, 0.01))
    await asyncio.sleep(0.03)
    assert caplog.messages == ["unexpected error in the statistics"]
    broken = False
    async with asyncio.timeout(2):
        while len(caplog.messages) < 2:
            await asyncio.sleep(0.005)
    task.cancel()
    assert "hits=5/total=10" in caplog.messages[1]
