"""power_of_two: the less busy of two workers picked at random."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.power_of_two import power_of_two


def test_the_busiest_is_never_picked_and_the_idlest_most_often():
    workers = [make_worker("idle", running=0), make_worker("some", running=5), make_worker("busy", running=9)]
    picked = choices(power_of_two, workers, times=3000)
    assert picked["busy"] == 0
    # Two of the three pairs contain the idle worker.
    assert 1900 < picked["idle"] < 2100


def test_a_tie_goes_either_way():
    picked = choices(power_of_two, [make_worker("a"), make_worker("b")], times=1000)
    assert 430 < picked["a"] < 570


def test_one_worker_is_enough():
    assert choices(power_of_two, [make_worker("only", running=3)], times=3) == {"only": 3}
