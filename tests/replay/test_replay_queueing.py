"""The engine against queueing theory: what waits, waits as long as the formulas say."""

from __future__ import annotations

from random import Random

import pytest

from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.run import run
from warmroute.replay.trace import Session, Trace, Turn

TOKEN = 1e-3
MEAN = 1000
"""Tokens of a prompt: one second of work."""


def workload(lengths: list[int], rate: float, seed: int) -> Trace:
    """Prompts that share nothing, with answers of one token, at Poisson times."""
    rng = Random(seed)
    now, sessions = 0.0, []
    for number, length in enumerate(lengths):
        now += rng.expovariate(rate)
        sessions.append(Session([Turn(length, 1, [number], [0, length])], now))
    return Trace("queue", sessions)


def mean_wait(lengths: list[int], rate: float, step_tokens: int) -> float:
    """Mean seconds between arrival and the beginning of the work, at one engine."""
    model = EngineModel(step=0, prefill_token=TOKEN, attention=0, request=0, context=0, step_tokens=step_tokens)
    result = run(workload(lengths, rate, 7), "round_robin", Fleet(1, model, cache_tokens=10**6))
    assert len(result.served) == len(lengths)
    return sum(r.first_token - r.arrival - r.prompt_tokens * TOKEN for r in result.served) / len(lengths)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_equal_prompts_wait_as_in_m_d_1(load: float) -> None:
    # One prompt fills a step, so that the steps are the services of the queue.
    waited = mean_wait([MEAN] * 12_000, load, MEAN)
    assert waited == pytest.approx(load / (2 * (1 - load)), rel=0.1)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_exponential_prompts_wait_as_in_m_m_1(load: float) -> None:
    rng = Random(3)
    lengths = [max(1, round(rng.expovariate(1 / MEAN))) for _ in range(8_000)]
    # Small steps, so that the next prompt begins soon after the end of the one before.
    waited = mean_wait(lengths, load, 100)
    assert waited == pytest.approx(load / (1 - load), rel=0.1)
