"""Serving an exchange by one worker, top-down: select, open, forward.

Until the client has got a byte, a worker that fails is replaced by one that has not been tried, at once; `attempts.py`
says when not. After that nothing is sent twice. Every attempt has a lease of its own, which is given back on every way
out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from warmroute.fleet.verdict import Verdict
from warmroute.gateway.attempts import Attempts, Failure
from warmroute.gateway.errors import (
    ConnectFailed,
    ConnectionLost,
    NoWorkerAvailable,
    Overloaded,
    UnknownModel,
    UpstreamError,
)
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.held import REPLACED_STATUSES
from warmroute.gateway.learning import learn_from_usage
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.scheduler import Full, NoWorker
from warmroute.scheduling.worker import Pool, Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

# An attribute of an Enum costs a call.
_FAILED, _SERVED = Outcome.FAILED, Outcome.SERVED


def serve_mixed(exchange: Exchange, prompt: Prompt, gateway: Gateway) -> Awaitable[None]:
    """Let a mixed worker answer the exchange. To be awaited; a coroutine of its own would only be one more to pass."""
    if gateway.strict_models:
        return serve_from(partial(_checked_pool, prompt.model, gateway), exchange, prompt, gateway)
    return serve_from(partial(gateway.fleet.pool, "mixed", prompt.model), exchange, prompt, gateway)


def _checked_pool(model: str | None, gateway: Gateway) -> Pool:
    workers = gateway.fleet.pool("mixed", model)
    check_model(model, workers, gateway)
    return workers


async def serve_from(
    pool: Callable[[], Pool],
    exchange: Exchange,
    prompt: Prompt,
    gateway: Gateway,
    attempts: Attempts | None = None,
) -> None:
    """Let one worker of the pool answer the exchange, none of those in `attempts`.

    The pool is asked for before each choice: while a worker was failing, others may have left or come back. When none
    is left, or none may be tried, the client gets the last answer of a worker, if there was one, else this raises what
    the last one failed with, or NoWorkerAvailable.
    """
    while True:
        lease: Lease | None = None
        try:
            lease = gateway.scheduler.select(prompt, pool(), excluding=() if attempts is None else attempts.tried)
        except Full:
            pass  # waited for below: nothing may be waited for in here
        except (NoWorker, UnknownModel) as none:
            if attempts is not None:
                return attempts.give_up(exchange)
            raise (NoWorkerAvailable() if isinstance(none, NoWorker) else none) from None
        if lease is None:
            try:
                await gateway.admission.for_worker(exchange, prompt, pool, () if attempts is None else attempts.tried)
            except Overloaded:
                if attempts is None or attempts.answer is None:
                    raise
                return attempts.give_up(exchange)
            continue
        if attempts is not None and attempts.reason:
            gateway.metrics.failed_over(attempts.reason)
        worker = lease.worker
        if worker.suspect:
            gateway.fleet.attempt_started(worker, exchange.request_id)
        exchange.lease = lease
        outcome = _FAILED
        failure: Failure | None
        try:
            await _attempt(exchange, worker, gateway)
            failure = exchange.held
            # An error of the worker is passed on, but its cache has learned nothing from it.
            if failure is None and exchange.status < 400:
                outcome = _SERVED
                learn_from_usage(exchange, lease, gateway)
        except UpstreamError as error:
            failure = error
        except BaseException as other:
            if isinstance(other, asyncio.CancelledError):
                outcome = Outcome.ABORTED
            if worker.suspect:
                gateway.fleet.judge(worker, Verdict.NEUTRAL, exchange.request_id)
            raise
        finally:
            lease.release(outcome)
        if failure is None:
            if worker.suspect or exchange.status >= 500:
                _judge_answer(exchange, worker, gateway)
            return
        exchange.held = None
        attempts = attempts or Attempts()
        if not attempts.failed(lease, failure, exchange, gateway, pool):
            return attempts.give_up(exchange)


def _judge_answer(exchange: Exchange, worker: Worker, gateway: Gateway) -> None:
    """Tell the fleet of an answer that was passed on."""
    status = exchange.status
    if status >= 500:
        gateway.failures.failed(exchange.request_id, worker, f"it answered {status}")
    verdict = Verdict.OK if status < 400 else Verdict.NEUTRAL
    if status in REPLACED_STATUSES and status >= 500:
        verdict = Verdict.SERVER_ERROR  # too long to be held back
    gateway.fleet.judge(worker, verdict, exchange.request_id)


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
    connection = connections.idle.take(gateway.upstream.now())
    if connection is not None:
        try:
            return await exchange.forward(connection, head, connections.alone_lines)
        except ConnectionLost as lost:
            if lost.response_seen:
                raise
    try:
        fresh = await connections.connect()
    except ConnectFailed as error:
        # It took the request on the kept connection, and is gone.
        error.request_lost = connection is not None
        raise
    await exchange.forward(fresh, head, connections.alone_lines)
