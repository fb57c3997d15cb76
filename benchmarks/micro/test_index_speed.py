"""What the prefix index costs per request: match, claim and confirm of 44 blocks (32 KB) over four workers.

Run by hand: pytest benchmarks/micro --benchmark-columns=min,median,ops
Target: less than 15 us for a prompt that is new.
"""

from __future__ import annotations

from itertools import count
from random import Random

from pytest_benchmark.fixture import BenchmarkFixture

from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Worker

BLOCKS_OF_32_KB = 44


class Driver:
    """Sends prompts through an index, worker by worker."""

    def __init__(self, cache_tokens: int) -> None:
        self.index = PrefixIndex(Ladder.default(), 256 * 1024 * 1024, 1800)
        self.workers = [Worker(f"w{number}", "", cache_tokens=cache_tokens) for number in range(4)]
        self.numbers = count(1)
        self.rng = Random(1)

    def new_prompt(self) -> list[int]:
        """A fingerprint that shares nothing with any other."""
        return [self.rng.getrandbits(64) for _ in range(BLOCKS_OF_32_KB)]

    def send(self, fingerprint: list[int]) -> None:
        """All that the index does for one request."""
        number = next(self.numbers)
        worker = self.workers[number % 4]
        self.index.match(fingerprint)
        self.index.claim(worker, fingerprint, float(number), number)
        self.index.confirm(number)


def test_new_prompts(benchmark: BenchmarkFixture) -> None:
    """Nothing is shared, nothing evicted."""
    driver = Driver(cache_tokens=1 << 40)
    benchmark.pedantic(driver.send, setup=lambda: ((driver.new_prompt(),), {}), rounds=5000)


def test_new_prompts_into_full_caches(benchmark: BenchmarkFixture) -> None:
    """Each prompt evicts an older one."""
    driver = Driver(cache_tokens=100_000)
    benchmark.pedantic(driver.send, setup=lambda: ((driver.new_prompt(),), {}), rounds=5000)


def test_a_known_prompt(benchmark: BenchmarkFixture) -> None:
    """One node that all four workers hold."""
    driver = Driver(cache_tokens=1 << 40)
    fingerprint = driver.new_prompt()
    benchmark(driver.send, fingerprint)


def test_a_conversation_of_ten_turns(benchmark: BenchmarkFixture) -> None:
    """Each turn has added a node; the time is that of the tenth turn."""
    driver = Driver(cache_tokens=1 << 40)
    fingerprint = driver.new_prompt()
    for end in range(4, BLOCKS_OF_32_KB, 4):
        for _ in driver.workers:
            driver.send(fingerprint[:end])
    benchmark(driver.send, fingerprint)
