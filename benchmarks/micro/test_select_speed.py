"""What one decision and its lease cost. Run by hand: pytest benchmarks/micro --benchmark-columns=min,median,ops

Targets without a fingerprint: 60 us with 64 workers, 600 us with 1,000. The lease is closed within the measured call,
so that loads stay what they are.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Pool, Worker

BLOCKS_OF_32_KB = 44


def make_fleet(workers: int, policy: str) -> tuple[Scheduler, Pool]:
    """A scheduler and a pool of workers that differ in load, so that ties are rare."""
    index = PrefixIndex(Ladder.default(), 256 * 1024 * 1024, 1800)
    scheduler = Scheduler(
        {"mixed": create_policy(policy, SchedulerConfig())}, index, Ledger(), rng=Random(1), clock=time.monotonic
    )
    pool = Pool("mixed", tuple(Worker(f"w{number}", "").candidate for number in range(workers)))
    for number, candidate in enumerate(pool.candidates):
        candidate.load.pending_prefill_tokens = number
        candidate.load.running_requests = number % 7
    return scheduler, pool


@pytest.mark.parametrize("workers", [4, 64, 1000])
@pytest.mark.parametrize("policy", policy_names())
def test_without_fingerprint(benchmark: BenchmarkFixture, policy: str, workers: int) -> None:
    """The decision and the books alone."""
    scheduler, pool = make_fleet(workers, policy)
    prompt = Prompt(tokens=8192)
    benchmark(lambda: scheduler.select(prompt, pool).release(Outcome.SERVED))


@pytest.mark.parametrize("workers", [4, 64, 1000])
@pytest.mark.parametrize("warm", [1, 4, 64])
def test_with_a_known_32_kb_prompt(benchmark: BenchmarkFixture, workers: int, warm: int) -> None:
    """`warm` workers hold prefixes of different lengths, as after a conversation that moved around."""
    scheduler, pool = make_fleet(workers, "cache_aware")
    rng = Random(2)
    prompt = Prompt(tokens=8192, fingerprint=[rng.getrandbits(64) for _ in range(BLOCKS_OF_32_KB)])
    for number, candidate in enumerate(pool.candidates[:warm]):
        scheduler.index.claim(candidate.worker, prompt.fingerprint[: 10 + number % 30], 0.0, -1 - number)
    benchmark(lambda: scheduler.select(prompt, pool).release(Outcome.SERVED))


def test_with_a_new_32_kb_prompt(benchmark: BenchmarkFixture) -> None:
    """Every prompt is learned anew."""
    scheduler, pool = make_fleet(4, "cache_aware")
    rng = Random(3)

    def new_prompt() -> tuple[tuple[Prompt], dict[str, object]]:
        fingerprint = [rng.getrandbits(64) for _ in range(BLOCKS_OF_32_KB)]
        return (Prompt(tokens=8192, fingerprint=fingerprint),), {}

    benchmark.pedantic(
        lambda prompt: scheduler.select(prompt, pool).release(Outcome.SERVED), setup=new_prompt, rounds=3000
    )
