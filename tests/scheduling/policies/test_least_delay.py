"""least_delay: one score in seconds, from what the workers' pace has shown."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.support.pools import SMALL_LADDER, chain, choices, make_worker, pool_of

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.pace import effective_tokens
from warmroute.scheduling.policies.least_delay import LeastDelay
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Worker

SPEED = 1e-4


def learn(worker: Worker, seconds_per_token: float = SPEED) -> Worker:
    """Let the worker be known to prefill at this speed."""
    for tokens in (100, 5000, 900, 20_000) * 8:
        worker.candidate.pace.learn(tokens, tokens * seconds_per_token)
    worker.candidate.pace.settle(seconds_per_token)
    return worker


class Fleet:
    """Workers that prefill one prompt after the other, each at a speed of its own, in a time that a test moves."""

    def __init__(self, seconds_per_token: list[float], *, known: bool = True, cache_tokens: int = 500_000) -> None:
        self.now = 0.0
        self.workers = [make_worker(f"w{n}", cache_tokens=cache_tokens) for n in range(len(seconds_per_token))]
        self.speeds = dict(zip(self.workers, seconds_per_token, strict=True))
        self.free_at = dict.fromkeys(self.workers, 0.0)
        self.under_way: list[tuple[float, Lease]] = []
        self.policy = LeastDelay()
        for worker in self.workers if known else ():
            learn(worker, self.speeds[worker])
        index = PrefixIndex(SMALL_LADDER, 1 << 24, 0)
        clock = lambda: self.now  # noqa: E731
        self.scheduler = Scheduler({"mixed": self.policy}, index, Ledger(), rng=Random(3), clock=clock)

    def send(self, tokens: int, fingerprint: list[int] | None = None) -> Worker:
        """Place one streamed prompt and let its worker prefill it in its turn."""
        prompt = Prompt(tokens=tokens, fingerprint=fingerprint or (), stream=True)
        lease = self.scheduler.select(prompt, pool_of(self.workers))
        worker = lease.worker
        seconds = effective_tokens(lease.uncached_tokens, lease.matched_tokens) * self.speeds[worker]
        self.free_at[worker] = max(self.free_at[worker], self.now) + seconds
        self.under_way.append((self.free_at[worker], lease))
        return worker

    def pass_time(self, seconds: float) -> None:
        """Go on; what is prefilled until then has its first token and is over."""
        end = self.now + seconds
        for due, lease in sorted(self.under_way, key=lambda item: item[0]):
            if due <= end:
                self.now = due
                lease.first_token()
                lease.release(Outcome.SERVED)
                self.under_way.remove((due, lease))
        self.now = end


def test_the_clock_is_the_schedulers():
    fleet = Fleet([SPEED])
    fleet.now = 42.0
    assert fleet.policy.clock() == 42.0


def test_a_warm_worker_is_worth_a_wait_as_long_as_its_match():
    """800 tokens are 80 ms, and the 20 ms that are left count double where one waits: 50 ms of wait pay, 100 do not."""
    for pending, expected in ((500, "warm"), (1000, "cold")):
        cold, warm = learn(make_worker("cold")), learn(make_worker("warm", matched=800))
        policy = LeastDelay()
        policy.clock = lambda: 0.0
        warm.candidate.pace.expect(pending, 0, policy.clock, streamed=True)
        assert policy([cold.candidate, warm.candidate], Prompt(tokens=1000), Random(1)).worker.id == expected


def test_a_busy_fleet_holds_on_to_what_it_has():
    """The same wait for the same match, but everybody has a queue: a wasted second would delay all of them."""
    fleet = [learn(make_worker(f"cold{n}")) for n in range(3)]
    warm = learn(make_worker("warm", matched=800))
    policy = LeastDelay()
    policy.clock = lambda: 0.0
    rows = [worker.candidate for worker in (*fleet, warm)]
    for row in rows:
        for _ in range(5):
            row.pace.expect(1000, 0, policy.clock, streamed=True)
    warm.candidate.pace.expect(1400, 0, policy.clock, streamed=True)
    assert policy(rows, Prompt(tokens=1000), Random(1)) is warm.candidate


def test_equal_prompts_of_one_burst_share_their_prefix_and_spread_when_it_pays():
    """Half of each prompt is its own. Sending all to one worker would take 8 of these halves, and copying it, fewer."""
    fleet = Fleet([SPEED] * 4)
    head = chain(range(200))
    picked = Counter(fleet.send(3000, [*head, *chain(range(200), seed=n + 1)]) for n in range(16))
    assert len(picked) > 1
    assert max(picked.values()) <= 8
    fleet.pass_time(100.0)
    assert fleet.scheduler.ledger.audit().consistent
    assert fleet.scheduler.ledger.open_leases == 0


def test_a_hot_prefix_comes_to_be_on_every_worker_under_load():
    """A prompt's own part takes some 60 ms and one comes every 18 ms: three workers would not do."""
    fleet = Fleet([SPEED] * 4)
    hot = chain(range(300))
    for n in range(400):
        fleet.send(3000, [*hot, *chain(range(90), seed=n + 1)])
        fleet.pass_time(0.018)
    fleet.pass_time(100.0)
    match = fleet.scheduler.index.match(hot)
    assert len(match) == 4
    assert min(match.values()) == max(match.values())


def test_cold_groups_settle_apart():
    """Forty conversations, one after the other, in an idle fleet: each stays, no worker has many more than others."""
    fleet = Fleet([SPEED] * 4)
    heads = [chain(range(120), seed=group + 1) for group in range(40)]
    homes: dict[int, set[Worker]] = {group: set() for group in range(40)}
    for _ in range(4):
        for group, head in enumerate(heads):
            homes[group].add(fleet.send(1000, head))
            fleet.pass_time(1.0)
    assert all(len(workers) == 1 for workers in homes.values())
    per_worker = Counter(next(iter(workers)) for workers in homes.values())
    assert max(per_worker.values()) <= 12


@pytest.mark.parametrize("known", [True, False])
def test_a_slow_worker_gets_as_much_as_it_can_do(known: bool):
    """Three workers of one speed and one four times slower, nine tenths busy: its share would be 1/13."""
    fleet = Fleet([SPEED, SPEED, SPEED, 4 * SPEED], known=known)
    tokens, rng = Counter(), Random(5)
    waits = []
    for n in range(3000):
        size = rng.randint(200, 4000)
        worker = fleet.send(size, None)
        waits.append(fleet.free_at[worker] - fleet.now)
        if n >= 500:
            tokens[worker.id] += size
        fleet.pass_time(0.0706)
    fleet.pass_time(100.0)
    share = tokens["w3"] / tokens.total()
    assert 0.02 < share < 0.12
    assert sum(waits[500:]) / 2500 < 1.0


def test_workers_that_seem_equally_fast_share_the_work():
    workers = [learn(make_worker(f"w{n}"), SPEED * (1 + n / 50)) for n in range(4)]
    policy = LeastDelay()
    for worker in workers:
        worker.candidate.pace.settle(SPEED)
    picked = choices(policy, workers, Prompt(tokens=1000), 400)
    assert min(picked.values()) > 60


def test_a_newcomer_is_taken_to_be_like_the_others():
    """Nothing is known of it; it must not get every prompt for being assumed to be fast."""
    slow = [learn(make_worker(f"w{n}"), 50 * SPEED) for n in range(3)]
    newcomer = make_worker("new")
    choices(LeastDelay(), [*slow, newcomer], Prompt(tokens=1000), 1)
    assert newcomer.candidate.pace.seconds_per_token == pytest.approx(50 * SPEED, rel=0.01)


def test_the_first_worker_that_is_seen_to_work_tells_of_all():
    """Else those that nobody has seen yet get everything, as long as they are assumed to be faster than it is."""
    workers = [make_worker(f"w{n}") for n in range(4)]
    policy = LeastDelay()
    choices(policy, workers, Prompt(tokens=1000), 1)
    workers[0].candidate.pace.learn(1000.0, 1000 * 8 * SPEED)
    choices(policy, workers, Prompt(tokens=1000), 1)
    for worker in workers:
        assert worker.candidate.pace.seconds_per_token == pytest.approx(8 * SPEED, rel=0.01)


def test_where_nobody_waits_nobody_is_delayed():
    """The others have a queue: an idle worker is not passed over for the sake of requests that do not wait there."""
    warm, busy, idle = learn(make_worker("warm", matched=800)), learn(make_worker("busy")), learn(make_worker("idle"))
    policy = LeastDelay()
    policy.clock = lambda: 0.0
    for worker in (warm, busy):
        worker.candidate.pace.expect(1200, 0, policy.clock, streamed=True)
    rows = [worker.candidate for worker in (warm, busy, idle)]
    assert policy(rows, Prompt(tokens=1000), Random(1)) is idle.candidate
