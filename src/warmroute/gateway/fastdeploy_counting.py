"""What FastDeploy's metric names are told of a request that is over."""

from __future__ import annotations

from warmroute.gateway.exchange import Exchange
from warmroute.gateway.targets import shown_path
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics


def count_for_fastdeploy(exchange: Exchange, metrics: FastDeployMetrics, now: float, status: int) -> None:
    """Count it; `now` is the event loop's time."""
    lease = exchange.lease
    if lease is not None:
        worker = lease.worker
        if isinstance(lease, PairLease):
            placed = lease.prefill.worker.url
            workers = "", placed, worker.url
        else:
            placed = worker.url
            workers = (placed, "", "") if worker.role == "mixed" else ("", "", placed)
        # As there, only an answer of a worker counts.
        if not exchange.own_answer and not exchange.client_gone:
            metrics.worker_answered((workers, status))
        session = lease.prompt.session_id
        if session is not None:
            metrics.session_placed(session, placed)
    began = exchange.complete_at
    metrics.request_done(shown_path(exchange.target), status, now - began if began else 0.0)
