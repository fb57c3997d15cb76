"""One replay, from a trace to its result."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from warmroute.config.tree import SchedulerConfig
from warmroute.replay.fleet import Fleet
from warmroute.replay.loop import AnyPolicy, Loop
from warmroute.replay.result import Result
from warmroute.replay.trace import Trace

__all__ = ["AnyPolicy", "run"]


def run(
    trace: Trace,
    policy: AnyPolicy,
    fleet: Fleet,
    *,
    rate: float = 1.0,
    seed: int = 0,
    options: SchedulerConfig | None = None,
    decode_policy: AnyPolicy | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Replay a trace `rate` times as fast as it was recorded.

    `seed` decides when sessions begin (where the trace does not tell) and feeds the policy, each by a generator of its
    own, so that all policies see the same arrivals. `options` are those of the router; `decode_policy` is for decode
    engines (default: the configured one). `progress` hears now and then how many requests have ended.
    """
    loop = Loop(fleet, options or SchedulerConfig(), policy, decode_policy, seed)
    trace.prepare(loop.ladder)
    started = time.process_time()
    with _no_collections():
        loop.play(trace, trace.starts(rate, Random(f"{seed} starts")), progress)
    return Result(
        trace=trace.name,
        policy=loop.policy_name,
        rate=rate,
        seed=seed,
        workers=[worker.id for worker in loop.workers],
        requests=loop.ended,
        evicted_tokens=sum(engine.cache.evicted_tokens for engine in loop.engines),
        busy_seconds=[engine.busy_seconds for engine in loop.engines],
        cpu_seconds=time.process_time() - started,
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """A replay makes no cycles, and a trace is millions of objects to look through: a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
