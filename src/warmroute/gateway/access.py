"""What the access log is told of a request that is over."""

from __future__ import annotations

import time

from warmroute.engines.usage import read_output_tokens, read_usage
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.targets import shown_path
from warmroute.scheduling.pairs import PairLease
from warmroute.telemetry.access_log import AccessLog, Line


def log_access(exchange: Exchange, log: AccessLog, now: float, status: int, outcome: str) -> None:
    """Write the line of an exchange that is not yet finished; `now` is the event loop's time."""
    duration = now - exchange.complete_at if exchange.complete_at else 0.0
    line = Line(
        round(time.time() - duration, 3),
        exchange.request_id.decode("latin-1"),
        shown_path(exchange.target),
        status,
        outcome,
        round(duration, 6),
    )
    if exchange.first_byte_at:
        line.ttft = round(exchange.first_byte_at - exchange.complete_at, 6)
    lease = exchange.lease
    if lease is not None:
        prompt = lease.prompt
        line.worker = lease.worker.id
        if isinstance(lease, PairLease):
            line.prefill_worker = lease.prefill.worker.id
        line.policy = lease.policy
        line.model = prompt.model
        line.session_id = prompt.session_id
        line.prompt_tokens = prompt.tokens
        line.matched_tokens = lease.matched_tokens
        if log.prefixes:
            line.block_tokens = log.block_tokens
            line.prefix = log.keyed(prompt.fingerprint)
    if exchange.started:
        tail = exchange.answer_tail
        usage = read_usage(tail)
        if usage is not None:
            line.cached_tokens = usage.cached_tokens
        written = read_output_tokens(tail)
        line.output_tokens = exchange.pieces if written is None and exchange.is_stream else written
    log.add(line)
