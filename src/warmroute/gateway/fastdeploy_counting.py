"""What FastDeploy's metric names are told of a request that is over."""

from __future__ import annotations

from warmroute.gateway.exchange import Exchange
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics


def count_for_fastdeploy(exchange: Exchange, metrics: FastDeployMetrics, now: float, status: int, outcome: str) -> None:
    """Count it; `now` is the event loop's time."""
    lease = exchange.lease
    worker = prefill = None
    if lease is not None:
        worker = lease.worker
        if isinstance(lease, PairLease):
            prefill = lease.prefill.worker
        session = lease.prompt.session_id
        if session is not None:
            metrics.session_placed(session, (prefill or worker).url)
    began = exchange.complete_at
    metrics.over((exchange.target, status, outcome, now - began if began else 0.0, worker, prefill))
