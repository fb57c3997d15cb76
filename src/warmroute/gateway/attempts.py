"""What one request has met with so far, once something has gone wrong, and whether another worker may be tried.

An attempt counts if its request may have reached the worker. All of them are bounded by max-attempts, those that
follow a 5xx answer by the retry budget as well; refusals and connect timeouts count for neither. 429, and a 503 that
speaks of a full queue, are back-pressure: others are tried, each once, and nobody is blamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from warmroute.fleet.verdict import Verdict
from warmroute.gateway.errors import (
    BadResponse,
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    GatewayError,
    NoWorkerAvailable,
    StreamUnfinished,
    UnknownModel,
    UpstreamError,
    WorkerFrozen,
)
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.held import HeldAnswer
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.worker import Pool, Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

Failure = UpstreamError | HeldAnswer


class Attempts:
    """The workers that are not to be asked again, and how the last of them failed."""

    __slots__ = ("_answer_lease", "answer", "count", "error", "reason", "tried")

    def __init__(
        self,
        tried: tuple[Worker, ...] = (),
        error: GatewayError | None = None,
        count: int = 0,
        reason: str = "",
    ) -> None:
        self.tried = tried
        self.error = error
        self.count = count
        self.answer: HeldAnswer | None = None
        self.reason = reason
        self._answer_lease: Lease | None = None

    def failed(
        self, lease: Lease, failure: Failure, exchange: Exchange, gateway: Gateway, pool: Callable[[], Pool]
    ) -> bool:
        """Take note, tell who has to know, and say whether another worker of the pool is there and may be tried."""
        self.tried = (*self.tried, lease.worker)
        self.count += counts(failure)
        if isinstance(failure, HeldAnswer):
            self.answer = failure
            self._answer_lease = lease
        else:
            self.error = failure
        self.reason = tell_failure(lease.worker, failure, exchange, gateway)
        return self._is_one_left(pool) and may_try_again(failure, self.count, exchange, gateway)

    def _is_one_left(self, pool: Callable[[], Pool]) -> bool:
        try:
            return pool().is_left(self.tried)
        except UnknownModel:
            return False

    def give_up(self, exchange: Exchange) -> None:
        """Answer with the last answer of a worker if there was one, else raise what the last one failed with."""
        if exchange.client_gone:
            raise asyncio.CancelledError
        if self.answer is None or exchange.started:
            raise self.error or NoWorkerAvailable()
        if self._answer_lease is not None:
            exchange.lease = self._answer_lease
        self.answer.pass_to(exchange)


def counts(failure: Failure) -> bool:
    """Whether the worker may have got the request."""
    return not isinstance(failure, ConnectFailed) or failure.request_lost


def may_try_again(failure: Failure, attempts: int, exchange: Exchange, gateway: Gateway) -> bool:
    """Whether another worker may get a request that was sent to so many."""
    if exchange.started or exchange.client_gone or attempts >= gateway.max_attempts:
        return False
    if not isinstance(failure, HeldAnswer) or failure.is_back_pressure:
        return True
    if gateway.retry_budget.spend(gateway.loop.time(), gateway.requests):
        return True
    gateway.metrics.retries_denied += 1
    return False


def tell_failure(worker: Worker, failure: Failure, exchange: Exchange, gateway: Gateway) -> str:
    """Tell log, metrics and fleet of a failed attempt. Returns its name in the metrics."""
    broken = exchange.is_broken_stream
    if isinstance(failure, HeldAnswer):
        reason = "back_pressure" if failure.is_back_pressure else "server_error"
        gateway.failures.failed(exchange.request_id, worker, f"it {failure.what}")
    else:
        reason = failure.reason
        gateway.failures.failed(exchange.request_id, worker, failure)
        if broken:
            gateway.metrics.stream_broken(reason)
            reason = "broken_stream"
    gateway.metrics.attempt_failed(reason)
    gateway.fleet.judge(worker, verdict_of(failure, broken_stream=broken), exchange.request_id)
    return reason


def verdict_of(failure: Failure, *, broken_stream: bool = False) -> Verdict:
    """What a failed attempt says of its worker; `broken_stream` if the client had a part of an event stream."""
    match failure:
        case HeldAnswer():
            return Verdict.NEUTRAL if failure.is_back_pressure else Verdict.SERVER_ERROR
        case ConnectTimedOut():
            return Verdict.CONNECT_TIMEOUT
        case ConnectFailed():
            return Verdict.REFUSED
        case WorkerFrozen():
            return Verdict.NEUTRAL  # the fleet knows already
        case StreamUnfinished():
            return Verdict.BROKEN_STREAM
        case ConnectionLost() | BadResponse() if broken_stream:
            return Verdict.BROKEN_STREAM
        case _:
            return Verdict.LOST
