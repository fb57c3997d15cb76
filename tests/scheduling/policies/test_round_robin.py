"""round_robin: the worker whose last turn is longest ago."""

from __future__ import annotations

import gc
from collections import Counter
from random import Random

from tests.support.pools import make_worker, rows

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policies.round_robin import RoundRobin
from warmroute.scheduling.worker import Worker

PROMPT = Prompt(tokens=10)


def turns(policy: RoundRobin, workers: list[Worker], times: int, rng: Random) -> list[str]:
    return [policy(rows(workers), PROMPT, rng).worker.id for _ in range(times)]


def test_workers_take_turns_in_one_order():
    workers = [make_worker(f"w{n}") for n in range(3)]
    order = turns(RoundRobin(), workers, 9, Random(1))
    assert sorted(order[:3]) == ["w0", "w1", "w2"]
    assert order == order[:3] * 3


def test_the_first_round_starts_anywhere():
    workers = [make_worker(f"w{n}") for n in range(3)]
    first = Counter(turns(RoundRobin(), workers, 1, Random(seed))[0] for seed in range(300))
    assert all(70 < first[f"w{n}"] < 130 for n in range(3))


def test_a_changing_list_costs_nobody_a_turn():
    """A counter modulo n gives some workers two turns when the list shrinks and grows with every request."""
    rng, policy = Random(2), RoundRobin()
    workers = [make_worker(f"w{n}") for n in range(4)]
    count = Counter()
    for step in range(400):
        absent = workers[step // 2 % 4] if step % 2 else None
        count.update(turns(policy, [w for w in workers if w is not absent], 1, rng))
    assert all(95 <= count[f"w{n}"] <= 105 for n in range(4))


def test_a_worker_that_returns_gets_one_turn_not_all_it_missed():
    rng, policy = Random(3), RoundRobin()
    a, b, c = (make_worker(name) for name in "abc")
    turns(policy, [a, b, c], 3, rng)
    turns(policy, [a, b], 50, rng)
    assert Counter(turns(policy, [a, b, c], 6, rng)) == {"a": 2, "b": 2, "c": 2}


def test_instances_do_not_share_turns():
    """One instance per role: prefill traffic must not advance the turns of decode."""
    rng = Random(4)
    a, b = make_worker("a"), make_worker("b")
    one, other = RoundRobin(), RoundRobin()
    first = turns(one, [a, b], 1, rng)[0]
    turns(other, [a, b], 1, rng)
    assert turns(one, [a, b], 1, rng)[0] != first


def test_a_removed_worker_is_not_remembered():
    policy = RoundRobin()
    turns(policy, [make_worker(f"w{n}") for n in range(5)], 5, Random(5))
    gc.collect()
    assert len(policy._last_turn) == 0
