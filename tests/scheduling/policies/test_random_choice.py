"""random: any worker, each equally likely."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.random_choice import random_choice


def test_every_worker_gets_its_share_whatever_its_load():
    workers = [make_worker(f"w{n}", running=n * 100, matched=n) for n in range(4)]
    picked = choices(random_choice, workers, times=4000)
    assert set(picked) == {"w0", "w1", "w2", "w3"}
    assert all(850 < count < 1150 for count in picked.values())
