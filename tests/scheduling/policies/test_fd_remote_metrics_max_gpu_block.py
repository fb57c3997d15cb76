"""fd_remote_metrics_max_gpu_block: most free KV blocks among the workers where nothing waits."""

from __future__ import annotations

import pytest
from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.fd_remote_metrics_max_gpu_block import fd_remote_metrics_max_gpu_block
from warmroute.scheduling.worker import EngineReport


def report(free: float | None, waiting: float = 0) -> EngineReport:
    return EngineReport(running_requests=1, waiting_requests=waiting, free_kv_blocks=free)


def test_most_free_blocks_where_nothing_waits():
    workers = [
        make_worker("little", report=report(free=10)),
        make_worker("most", running=50, report=report(free=20)),
        make_worker("queued", report=report(free=99, waiting=1)),
        make_worker("untold", report=report(free=None)),
        make_worker("silent"),
    ]
    assert choices(fd_remote_metrics_max_gpu_block, workers, times=20) == {"most": 20}


@pytest.mark.parametrize("unfit", [None, report(free=None), report(free=0), report(free=50, waiting=2)])
def test_when_none_qualifies_the_fewest_running_requests_decide(unfit: EngineReport | None):
    """The peers fail the request here; a router that has a healthy worker does not."""
    workers = [make_worker("many", running=4, report=unfit), make_worker("few", running=3, report=unfit)]
    assert choices(fd_remote_metrics_max_gpu_block, workers, times=20) == {"few": 20}


def test_a_tie_goes_either_way():
    workers = [make_worker("a", report=report(free=5)), make_worker("b", report=report(free=5))]
    assert 430 < choices(fd_remote_metrics_max_gpu_block, workers, times=1000)["a"] < 570
