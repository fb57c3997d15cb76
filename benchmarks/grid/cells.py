"""The cells of the grid and how one is computed."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from random import Random

from benchmarks.grid.workloads import Half, workload
from warmroute.cli.replay_values import policy_by_name
from warmroute.replay.fleet import Fleet
from warmroute.replay.result import Result
from warmroute.replay.run import run

TOLERATED_SECONDS = 30.0
"""The p99 of the time to first token up to which a fleet is not saturated."""
_HALVINGS = 4
_MEASURE = "process_tokens"


@dataclass(frozen=True, slots=True)
class Setting:
    """A trace on a fleet. `limit` cuts the trace (None: all of the half)."""

    folder: Path
    trace: str
    half: Half
    workers: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A setting at a part of its saturation rate, with one seed."""

    setting: Setting
    load: float
    rate: float
    seed: int
    policy: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run gave; times in seconds."""

    mean: float
    p99: float
    hit_share: float
    imbalance: float


@cache
def _frozen(setting: Setting) -> Setting:
    """The same, its trace read: millions of objects that stay, at which the garbage collector need not look."""
    workload(setting.folder, setting.trace, setting.half, setting.limit)
    gc.freeze()
    return setting


def play(setting: Setting, policy: str, rate: float, seed: int) -> Result:
    """One replay."""
    _frozen(setting)
    trace = workload(setting.folder, setting.trace, setting.half, setting.limit)
    return run(trace, policy_by_name(policy), Fleet(workers=setting.workers), rate=rate, seed=seed)


def saturation(setting: Setting) -> float:
    """The highest rate at which the least pending tokens keep the p99 of the time to first token below the limit.

    A short trace may never get there. Then it is the rate at which its uncached prompts come as fast as the engines can
    compute them or, in a closed loop, from which on all sessions run at once.
    """

    def keeps(rate: float) -> bool:
        spread = play(setting, _MEASURE, rate, 1).first_token
        return spread is not None and spread.p99 < TOLERATED_SECONDS

    cap = _capacity(setting)
    if keeps(cap):
        return cap
    low, high = cap / 2.0, cap
    while not keeps(low):
        low, high = low / 2.0, low
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        if keeps(middle):
            low = middle
        else:
            high = middle
    return low


def _capacity(setting: Setting) -> float:
    """The rate at which prefill alone keeps all engines busy while requests arrive; a closed loop's starts do so."""
    result = play(setting, _MEASURE, 1.0, 1)
    model = Fleet().model
    prefill = sum(
        model.prefill_seconds(served.prompt_tokens - served.cached_tokens, served.cached_tokens)
        for served in result.served
    )
    starts = workload(setting.folder, setting.trace, setting.half, setting.limit).starts(1.0, Random("1 starts"))
    return max(starts) * setting.workers / prefill


def measure(cell: Cell) -> Figures:
    """The figures of one policy in one cell."""
    result = play(cell.setting, cell.policy, cell.rate, cell.seed)
    spread = result.first_token
    if spread is None:
        raise ValueError(f"nothing was served in {cell}")
    return Figures(spread.mean, spread.p99, result.hit_share, result.imbalance)
