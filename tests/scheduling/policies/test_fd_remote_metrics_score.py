"""fd_remote_metrics_score: running + waiting x waiting-weight as the engines report it."""

from __future__ import annotations

import pytest
from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.fd_remote_metrics_score import FdRemoteMetricsScore
from warmroute.scheduling.worker import EngineReport


@pytest.mark.parametrize(("weight", "expected"), [(0.0, "waits"), (1.0, "waits"), (10.0, "runs")])
def test_the_weight_of_waiting_requests(weight: float, expected: str):
    workers = [
        make_worker("runs", report=EngineReport(running_requests=8, waiting_requests=0)),
        make_worker("waits", report=EngineReport(running_requests=2, waiting_requests=1)),
    ]
    assert choices(FdRemoteMetricsScore(weight), workers, times=20) == {expected: 20}


def test_reports_win_over_local_counts():
    workers = [
        make_worker("a", running=0, report=EngineReport(running_requests=7, waiting_requests=0)),
        make_worker("b", running=9, report=EngineReport(running_requests=1, waiting_requests=0)),
    ]
    assert choices(FdRemoteMetricsScore(), workers, times=20) == {"b": 20}


def test_a_worker_without_a_fresh_report_is_judged_by_its_leases():
    workers = [
        make_worker("told", report=EngineReport(running_requests=3, waiting_requests=0)),
        make_worker("silent", running=2),
    ]
    assert choices(FdRemoteMetricsScore(), workers, times=20) == {"silent": 20}


def test_a_tie_goes_either_way():
    picked = choices(FdRemoteMetricsScore(), [make_worker("a"), make_worker("b")], times=1000)
    assert 430 < picked["a"] < 570
