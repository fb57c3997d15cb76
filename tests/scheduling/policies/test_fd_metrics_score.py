"""fd_metrics_score: running requests of our own leases; what waits in an engine cannot be seen from here."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.scheduling.policies.fd_metrics_score import FdMetricsScore
from warmroute.scheduling.worker import EngineReport


def test_local_counts_decide_and_reports_do_not():
    workers = [
        make_worker("few", running=1, report=EngineReport(running_requests=99, waiting_requests=99)),
        make_worker("many", running=2, report=EngineReport(running_requests=0, waiting_requests=0)),
    ]
    assert choices(FdMetricsScore(waiting_weight=10.0), workers, times=20) == {"few": 20}


def test_a_tie_goes_either_way():
    picked = choices(FdMetricsScore(), [make_worker("a", running=2), make_worker("b", running=2)], times=1000)
    assert 430 < picked["a"] < 570
