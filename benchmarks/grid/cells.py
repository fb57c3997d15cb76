"""The cells of the grid and how one is computed."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from random import Random

from benchmarks.grid.workloads import REQUESTS, Half, fleet, workload
from warmroute.cli.replay_values import policy_by_name
from warmroute.replay.result import Result
from warmroute.replay.run import run
from warmroute.replay.trace import Trace

TOLERATED_SECONDS = 30.0
"""The p99 of the time to first token up to which a fleet is not saturated."""
_HALVINGS = 4
_DOUBLINGS = 8
_MEASURE = "process_tokens"


@dataclass(frozen=True, slots=True)
class Setting:
    """One half of a trace on a fleet. `requests` are fewer or more than usual, for tests."""

    folder: Path
    trace: str
    half: Half
    workers: int
    requests: int | None = None


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


def play(setting: Setting, policy: str, rate: float, seed: int) -> Result:
    """One replay."""
    return run(_trace(setting), policy_by_name(policy), fleet(setting.trace, setting.workers), rate=rate, seed=seed)


def _trace(setting: Setting) -> Trace:
    requests = setting.requests or REQUESTS[setting.trace][setting.workers]
    trace = workload(setting.folder, setting.trace, setting.half, requests)
    gc.freeze()  # millions of objects that stay, at which the garbage collector need not look
    return trace


def saturation(setting: Setting) -> float:
    """The highest rate at which the least pending tokens keep the p99 of the time to first token below the limit.

    Raises ValueError if no rate is too high, so that the trace has too few requests for the fleet.
    """

    def keeps(rate: float) -> bool:
        spread = play(setting, _MEASURE, rate, 1).first_token
        return spread is not None and spread.p99 < TOLERATED_SECONDS

    low = high = _capacity(setting)
    if keeps(high):
        for _ in range(_DOUBLINGS):
            low, high = high, high * 2.0
            if not keeps(high):
                break
        else:
            raise ValueError(f"{setting.trace} has too few requests to saturate {setting.workers} workers")
    else:
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
    """Where to begin: the rate at which prefill alone keeps all engines busy while requests arrive."""
    result = play(setting, _MEASURE, 1.0, 1)
    model = fleet(setting.trace, setting.workers).model
    prefill = sum(
        model.prefill_seconds(served.prompt_tokens - served.cached_tokens, served.cached_tokens)
        for served in result.served
    )
    return max(_trace(setting).starts(1.0, Random("1 starts"))) * setting.workers / prefill


def measure(cell: Cell) -> Figures:
    """The figures of one policy in one cell."""
    result = play(cell.setting, cell.policy, cell.rate, cell.seed)
    spread = result.first_token
    if spread is None:
        raise ValueError(f"nothing was served in {cell}")
    return Figures(spread.mean, spread.p99, result.hit_share, result.imbalance)
