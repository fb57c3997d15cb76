"""What the metrics and the access log are told of a request that is over: once, and all of it here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from warmroute.gateway.access import log_access
from warmroute.gateway.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmroute.gateway.fastdeploy_counting import count_for_fastdeploy
from warmroute.gateway.targets import shown_path
from warmroute.gateway.tracing import end_trace
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.decisions import Decision

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

logger = logging.getLogger(__name__)


def count_request(exchange: Exchange, gateway: Gateway, began: float) -> None:
    """Tell of a request that is over; `began` is when its relay did, by `perf_counter`."""
    lease = exchange.lease
    status = exchange.status
    outcome = exchange.own_answer
    if exchange.client_gone:
        status, outcome = CLIENT_CLOSED_REQUEST, "aborted"
    elif not outcome:
        outcome = "served" if status < 400 else "error"
    if gateway.access_log is not None:
        log_access(exchange, gateway.access_log, gateway.loop.time(), status, outcome)
    if gateway.fastdeploy_metrics is not None:
        count_for_fastdeploy(exchange, gateway.fastdeploy_metrics, gateway.loop.time(), status)
    metrics = gateway.metrics
    metrics.answered += 1
    role = gateway.role
    if lease is None:
        metrics.request_done(gateway.scheduler.policy_name(role), role, "", status, outcome)
    else:
        metrics.request_done(lease.policy, role, lease.worker.id, status, outcome)
        if outcome == "served":
            _count_served(exchange, lease, gateway, began)
    if exchange.trace is not None and gateway.tracer is not None:
        end_trace(exchange, exchange.trace, gateway.tracer, gateway.loop.time(), status, outcome)
    if exchange.decision is not None:
        _tell_decision(exchange, exchange.decision, outcome, status, gateway)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "request %s %s worker=%s status=%d outcome=%s seconds=%.4f",
            exchange.request_id.decode("latin-1"),
            shown_path(exchange.target),
            "-" if lease is None else lease.worker.id,
            status,
            outcome,
            gateway.loop.time() - exchange.complete_at,
        )


def _tell_decision(exchange: Exchange, decision: Decision, outcome: str, status: int, gateway: Gateway) -> None:
    first = exchange.first_byte_at
    to_first = first - exchange.complete_at if first else None
    decision.ended(outcome, status, to_first, gateway.loop.time() - exchange.complete_at)


def _count_served(exchange: Exchange, lease: Lease | PairLease, gateway: Gateway, began: float) -> None:
    metrics = gateway.metrics
    now = gateway.loop.time()
    metrics.duration.observe(now - exchange.complete_at)
    metrics.added.observe(exchange.sent_at - began)
    pieces = exchange.pieces
    if pieces > 1 and exchange.is_stream:
        metrics.streamed(lease.worker.tally, (now - exchange.first_byte_at) / (pieces - 1))
