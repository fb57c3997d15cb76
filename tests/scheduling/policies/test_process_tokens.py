"""process_tokens: the worker with the fewest prompt tokens still to prefill."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.process_tokens import process_tokens


def test_pending_tokens_decide_not_requests():
    workers = [make_worker("long", running=1, pending=9000), make_worker("short", running=30, pending=300)]
    assert choices(process_tokens, workers, times=20) == {"short": 20}


def test_a_tie_goes_either_way():
    workers = [make_worker("a", pending=5), make_worker("b", pending=5), make_worker("c", pending=6)]
    picked = choices(process_tokens, workers, times=1000)
    assert picked["c"] == 0
    assert 430 < picked["a"] < 570
