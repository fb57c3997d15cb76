"""What FastDeploy's metric names are told of a request that is over."""

from __future__ import annotations

from warmroute.gateway.exchange import Exchange
from warmroute.gateway.targets import shown_path
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics


def count_for_fastdeploy(exchange: Exchange, metrics: FastDeployMetrics, now: float, status: int) -> None:
    """Count it; `now` is the event loop's time."""
    lease = exchange.lease
    workers = None
    if lease is not None:
        url = lease.worker.url
        placed = url
        if isinstance(lease, PairLease):
            placed = lease.prefill.worker.url
            workers = "", placed, url
        else:
            workers = (url, "", "") if lease.worker.role == "mixed" else ("", "", url)
        session = lease.prompt.session_id
        if session is not None:
            metrics.session_placed(session, placed)
        # As there, only an answer of a worker counts.
        if exchange.own_answer or exchange.client_gone:
            workers = None
    began = exchange.complete_at
    metrics.over((shown_path(exchange.target), status, now - began if began else 0.0, workers))
