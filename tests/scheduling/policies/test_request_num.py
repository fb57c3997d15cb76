"""request_num: the worker with the fewest running requests."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.request_num import request_num


def test_running_requests_decide_not_tokens():
    workers = [make_worker("few", running=1, pending=9000), make_worker("many", running=2)]
    assert choices(request_num, workers, times=20) == {"few": 20}


def test_a_tie_goes_either_way():
    picked = choices(request_num, [make_worker("a"), make_worker("b"), make_worker("c", running=1)], times=1000)
    assert picked["c"] == 0
    assert 430 < picked["a"] < 570
