"""What the metrics and the access log are told of a request that is over: once, and all of it here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from warmroute.gateway.access import log_access
from warmroute.gateway.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmroute.gateway.targets import shown_path
from warmroute.gateway.tracing import end_trace
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.endings import Ending
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics
from warmroute.telemetry.metrics import SETTLE_MASK

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

logger = logging.getLogger(__name__)


def count_request(exchange: Exchange, gateway: Gateway, began: float) -> None:
    """Tell of a request that is over; `began` is when its relay did, by `perf_counter`."""
    lease = exchange.lease
    if exchange.client_gone:
        status, outcome = CLIENT_CLOSED_REQUEST, "aborted"
    else:
        status = exchange.status
        outcome = exchange.own_answer or ("served" if status < 400 else "error")
    metrics = gateway.metrics
    metrics.answered += 1
    endings = gateway.endings
    if endings is not None:
        now = gateway.loop.time()
        if lease is not None:
            endings.add(
                (
                    exchange.target,
                    status,
                    outcome,
                    lease.policy,
                    gateway.role,
                    lease.worker,
                    lease.prefill.worker if gateway.hands_over and isinstance(lease, PairLease) else None,
                    now - exchange.complete_at,
                    exchange.sent_at - began,
                )
            )
            if exchange.pieces > 1 and metrics.records and outcome == "served" and exchange.is_stream:
                metrics.streamed(lease.worker.tally, (now - exchange.first_byte_at) / (exchange.pieces - 1))
            if gateway.fastdeploy_metrics is not None and lease.prompt.session_id is not None:
                _count_session(lease, lease.prompt.session_id, gateway.fastdeploy_metrics)
        else:
            endings.add(_unplaced(exchange, gateway, now, status, outcome))
        if not metrics.answered & SETTLE_MASK:
            metrics.settle()
    if gateway.access_log is not None or exchange.trace is not None or exchange.decision is not None:
        _tell(exchange, gateway, status, outcome)
    if logger.isEnabledFor(logging.DEBUG):
        _log(exchange, gateway, status, outcome)


def _unplaced(exchange: Exchange, gateway: Gateway, now: float, status: int, outcome: str) -> Ending:
    policy = gateway.scheduler.policy_name(gateway.role)
    seconds = now - exchange.complete_at if exchange.complete_at else 0.0
    return exchange.target, status, outcome, policy, gateway.role, None, None, seconds, 0.0


def _count_session(lease: Lease | PairLease, session: str, metrics: FastDeployMetrics) -> None:
    placed = lease.prefill if isinstance(lease, PairLease) else lease
    metrics.session_placed(session, placed.worker.url)


def _log(exchange: Exchange, gateway: Gateway, status: int, outcome: str) -> None:
    lease = exchange.lease
    logger.debug(
        "request %s %s worker=%s status=%d outcome=%s seconds=%.4f",
        exchange.request_id.decode("latin-1"),
        shown_path(exchange.target),
        "-" if lease is None else lease.worker.id,
        status,
        outcome,
        gateway.loop.time() - exchange.complete_at,
    )


def _tell(exchange: Exchange, gateway: Gateway, status: int, outcome: str) -> None:
    """Tell those of it that not every router has."""
    now = gateway.loop.time()
    if gateway.access_log is not None:
        log_access(exchange, gateway.access_log, now, status, outcome)
    if exchange.trace is not None and gateway.tracer is not None:
        end_trace(exchange, exchange.trace, gateway.tracer, now, status, outcome)
    if exchange.decision is not None:
        first = exchange.first_byte_at
        to_first = first - exchange.complete_at if first else None
        exchange.decision.ended(outcome, status, to_first, now - exchange.complete_at)
