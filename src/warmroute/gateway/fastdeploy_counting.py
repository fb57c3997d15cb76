"""What FastDeploy's metric names are told of a request that is over."""

from __future__ import annotations

from warmroute.gateway.exchange import Exchange
from warmroute.gateway.targets import shown_path
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics


def count_for_fastdeploy(exchange: Exchange, metrics: FastDeployMetrics, now: float, status: int) -> None:
    """Count it; `now` is the event loop's time."""
    lease = exchange.lease
    if lease is not None:
        _count_answer(exchange, lease, metrics, status)
    seconds = now - exchange.complete_at if exchange.complete_at else 0.0
    metrics.request_done(shown_path(exchange.target), status, seconds)


def _count_answer(exchange: Exchange, lease: Lease | PairLease, metrics: FastDeployMetrics, status: int) -> None:
    worker = lease.worker
    mixed = worker.url if worker.role == "mixed" else ""
    decode = worker.url if worker.role == "decode" else ""
    prefill = lease.prefill.worker if isinstance(lease, PairLease) else None
    # As there, only an answer of a worker counts.
    if not exchange.own_answer and not exchange.client_gone:
        metrics.worker_answered(mixed, prefill.url if prefill is not None else "", decode, status)
    session = lease.prompt.session_id
    if session is not None:
        metrics.session_placed(session, (prefill or worker).url)
