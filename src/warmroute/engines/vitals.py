"""What one page of engine metrics tells, whatever the dialect, and what a dialect is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warmroute.engines.exposition import samples, total
from warmroute.scheduling.worker import EngineReport


@dataclass(frozen=True, slots=True)
class Vitals:
    """One page of one engine.

    `report` is None while the page lacks the request gauges (an engine that has served nothing yet, or a release that
    renamed them): no figure is better than a false zero. `kv_cache_tokens` is the capacity in tokens over all ranks.
    `started_at` is the process start in Unix seconds. `work_done` counts tokens since the start of the engine.
    `kv_connector` is the KV connector that the engine runs with, where its metrics tell.
    """

    dialect: str
    report: EngineReport | None
    kv_cache_tokens: int | None = None
    started_at: float | None = None
    work_done: float | None = None
    kv_connector: str | None = None

    def restarted_since(self, earlier: Vitals) -> bool:
        """Whether the engine was restarted between the two pages: another process start, or counters that fell."""
        if None not in (self.started_at, earlier.started_at) and self.started_at != earlier.started_at:
            return True
        if self.work_done is None or earlier.work_done is None:
            return False
        return self.work_done < earlier.work_done


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine's way to name its metrics: all its families begin with `prefix`; `read` reads a page of it."""

    prefix: bytes
    read: Callable[[bytes], Vitals]


def make_vitals(
    page: bytes,
    dialect: str,
    *,
    running: float | None,
    waiting: float | None,
    kv_cache_tokens: int | None,
    free_kv_blocks: float | None,
    kv_connector: str | None = None,
) -> Vitals:
    """Put together what a dialect has read with what all dialects share: process start and token counters."""
    report = None
    if running is not None and waiting is not None:
        report = EngineReport(running, waiting, free_kv_blocks)
    work = (*samples(page, f"{dialect}:prompt_tokens_total"), *samples(page, f"{dialect}:generation_tokens_total"))
    started = samples(page, "process_start_time_seconds")
    return Vitals(
        dialect,
        report,
        kv_cache_tokens,
        started_at=max((sample.value for sample in started), default=None),
        work_done=total(work),
        kv_connector=kv_connector,
    )
