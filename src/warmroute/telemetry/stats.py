"""The `[stats]` log line, in the form that tools for the FastDeploy router read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.guard import Guard
from warmroute.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """What a line is made of. Token counts run since the start; `running` is sorted by worker URL."""

    running: tuple[tuple[str, int], ...]
    matched_tokens: int
    prompt_tokens: int
    requests: int


def take_snapshot(metrics: Metrics, workers: Iterable[Worker]) -> Snapshot:
    """Read the counters as they stand."""
    running: dict[str, int] = {}
    for worker in workers:
        running[worker.url] = running.get(worker.url, 0) + worker.load.running_requests
    return Snapshot(
        tuple(sorted(running.items())),
        metrics.matched_tokens,
        metrics.prompt_tokens,
        metrics.answered,
    )


def render_stats(now: Snapshot, before: Snapshot) -> str | None:
    """One line for the time between two snapshots, or None when nothing happened in it.

    Hits and total are prompt tokens of the interval: those the chosen workers were believed to hold, and all.
    """
    if now == before:
        return None
    hits = now.matched_tokens - before.matched_tokens
    total = now.prompt_tokens - before.prompt_tokens
    rate = 100 * hits / total if total else 0.0
    workers = ", ".join(f"{url}: running={count}" for url, count in now.running)
    running = sum(count for _, count in now.running)
    return (
        f"[stats] total_running={running}, workers: [{workers}], cache_hit_rate={rate:.2f}% (hits={hits}/total={total})"
    )


async def log_stats(metrics: Metrics, workers: Callable[[], Iterable[Worker]], interval: float) -> None:
    """Log a line every `interval` seconds in which something happened, until cancelled. Returns at once for 0."""
    if interval <= 0:
        return
    guard = Guard(logger, "the statistics")
    before: Snapshot | None = None
    while True:
        with guard:
            now = take_snapshot(metrics, workers())
            if before is not None and (line := render_stats(now, before)):
                logger.info("%s", line)
            before = now
        await asyncio.sleep(interval)
