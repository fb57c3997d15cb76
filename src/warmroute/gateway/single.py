"""Serving an exchange by one worker, top-down: select, open, forward.

Until a byte of a response has been seen, a worker that fails is replaced by one that has not been tried. After that
nothing is sent twice. A request that was lost may be what has ended the worker, so one more gets it at most. Every
attempt has a lease of its own, which is given back on every way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from warmroute.gateway.errors import (
    ConnectFailed,
    ConnectionLost,
    GatewayError,
    NoWorkerAvailable,
    UnknownModel,
    UpstreamError,
)
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.learning import learn_from_usage
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.scheduler import Full, NoWorker
from warmroute.scheduling.worker import Pool, Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

MAX_LOSSES = 2
"""So many workers may lose a request; then the request is likely to be the cause."""


def serve_mixed(exchange: Exchange, prompt: Prompt, gateway: Gateway) -> Awaitable[None]:
    """Let a mixed worker answer the exchange. To be awaited; a coroutine of its own would only be one more to pass."""

    def pool() -> Pool:
        workers = gateway.fleet.pool("mixed", prompt.model)
        if gateway.strict_models:
            check_model(prompt.model, workers, gateway)
        return workers

    return serve_from(pool, exchange, prompt, gateway)


async def serve_from(
    pool: Callable[[], Pool],
    exchange: Exchange,
    prompt: Prompt,
    gateway: Gateway,
    tried: tuple[Worker, ...] = (),
    failure: GatewayError | None = None,
    losses: int = 0,
) -> None:
    """Let one worker of the pool answer the exchange, none of those that were `tried`.

    The pool is asked for before each choice: while a worker was failing, others may have left or come back. When none
    is left, or the request was lost MAX_LOSSES times (`losses` before), raises what the last one failed with, at first
    `failure`, or NoWorkerAvailable.
    """
    while True:
        try:
            lease = gateway.scheduler.select(prompt, pool(), excluding=tried)
        except Full:
            await gateway.admission.for_worker(exchange, prompt, pool, tried)
            continue
        except NoWorker:
            raise failure or NoWorkerAvailable() from None
        except UnknownModel as error:
            raise failure or error from None
        exchange.lease = lease
        outcome = Outcome.FAILED
        try:
            await _attempt(exchange, lease.worker, gateway)
            # An error of the worker is passed on, but its cache has learned nothing from it.
            if exchange.status < 400:
                outcome = Outcome.SERVED
                learn_from_usage(exchange, lease, gateway)
            elif exchange.status >= 500:
                gateway.failures.failed(exchange.request_id, lease.worker, f"it answered {exchange.status}")
            return
        except asyncio.CancelledError:
            outcome = Outcome.ABORTED
            raise
        except UpstreamError as error:
            gateway.failures.failed(exchange.request_id, lease.worker, error)
            if error.response_seen:
                raise
            if isinstance(error, ConnectFailed):
                gateway.fleet.worker_refused(lease.worker)
            losses += error.request_lost
            if losses >= MAX_LOSSES:
                raise
            failure = error
            tried = (*tried, lease.worker)
        finally:
            lease.release(outcome)


def check_model(model: str | None, pool: Pool, gateway: Gateway) -> None:
    """UnknownModel with strict-models, if there are workers and none of them lists the model."""
    if not gateway.strict_models or model is None or not pool.candidates:
        return
    if not gateway.fleet.knows_model(pool.role, model):
        raise UnknownModel(model)


async def _attempt(exchange: Exchange, worker: Worker, gateway: Gateway) -> None:
    """Send the request to a worker; once more on a new connection if a kept one had died unnoticed."""
    connections = gateway.upstream.of(worker)
    head = exchange.head_for(connections.address, exchange.body_size)
    connection = connections.take_idle()
    if connection is not None:
        try:
            return await exchange.forward(connection, head, connections.alone_lines)
        except ConnectionLost as error:
            if error.response_seen:
                raise
    try:
        fresh = await connections.connect()
    except ConnectFailed as error:
        # It took the request on the kept connection, and is gone.
        error.request_lost = connection is not None
        raise
    await exchange.forward(fresh, head, connections.alone_lines)
