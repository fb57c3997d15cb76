"""The relay of one exchange to a mixed worker, top-down: read, select, open, forward.

Until a byte of a response has been seen, a worker that fails is replaced by one that has not been tried. After that
nothing is sent twice. Every attempt has a lease of its own, which is given back on every way out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from warmroute.gateway.errors import (
    ConnectFailed,
    ConnectionLost,
    GatewayError,
    InternalError,
    InvalidBody,
    NoWorkerAvailable,
    ShuttingDown,
    UnknownModel,
    UpstreamError,
)
from warmroute.gateway.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmroute.prompts.body import BadRequest, read_request
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.scheduler import NoWorker
from warmroute.scheduling.worker import Pool, Role, Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

ROLE: Role = "mixed"


async def relay(exchange: Exchange, gateway: Gateway) -> None:
    """Answer one exchange. Never raises; when it returns, the exchange is over and nothing is held for it."""
    try:
        if exchange.refusal is not None:
            raise exchange.refusal
        prompt = _read(exchange, gateway)
        if gateway.tokenizer is not None and exchange.kind != "other":
            refined = gateway.tokenizer.refine(prompt, exchange.body, exchange.kind, gateway.ladder)
            prompt = await gateway.loop.create_task(refined)
        await _serve(exchange, prompt, gateway)
    except GatewayError as error:
        exchange.fail(error)
    except asyncio.CancelledError:
        # The client left, or the server stops and waits no longer. Nobody awaits this task for its result.
        exchange.fail(ShuttingDown())
    except Exception:
        logger.exception("request %s failed in the router", exchange.request_id.decode("latin-1"))
        exchange.fail(InternalError())
    finally:
        _count(exchange, gateway)
        exchange.finish()


def _read(exchange: Exchange, gateway: Gateway) -> Prompt:
    try:
        return read_request(exchange.body, exchange.kind, gateway.ladder)
    except BadRequest as error:
        raise InvalidBody(error) from error


async def _serve(exchange: Exchange, prompt: Prompt, gateway: Gateway) -> None:
    pool = _pool(prompt.model, gateway)
    tried: tuple[Worker, ...] = ()
    failure: GatewayError | None = None
    while True:
        try:
            lease = gateway.scheduler.select(prompt, pool, excluding=tried)
        except NoWorker:
            raise failure or NoWorkerAvailable() from None
        exchange.lease = lease
        outcome = Outcome.FAILED
        try:
            await _attempt(exchange, lease.worker, gateway)
            # An error of the worker is passed on, but its cache has learned nothing from it.
            if exchange.status < 400:
                outcome = Outcome.SERVED
            return
        except asyncio.CancelledError:
            outcome = Outcome.ABORTED
            raise
        except UpstreamError as error:
            if error.response_seen:
                raise
            if isinstance(error, ConnectFailed):
                gateway.fleet.worker_refused(lease.worker)
            failure = error
            tried = (*tried, lease.worker)
        finally:
            lease.release(outcome)


def _pool(model: str | None, gateway: Gateway) -> Pool:
    pool = gateway.fleet.pool(ROLE, model)
    if gateway.strict_models and model is not None and pool.candidates and not gateway.fleet.knows_model(ROLE, model):
        raise UnknownModel(model)
    return pool


async def _attempt(exchange: Exchange, worker: Worker, gateway: Gateway) -> None:
    """Send the request to a worker; once more on a new connection if a kept one had died unnoticed."""
    connections = gateway.upstream.of(worker)
    address = connections.address
    head = b"POST %b%b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\nx-request-id: %b\r\n\r\n" % (
        address.prefix,
        exchange.target,
        address.authority,
        exchange.head.forwarded,
        exchange.body_size,
        exchange.request_id,
    )
    connection = connections.take_idle()
    if connection is not None:
        try:
            return await exchange.forward(connection, head, connections.url_line)
        except ConnectionLost as error:
            if error.response_seen:
                raise
    connection = await connections.connect()
    await exchange.forward(connection, head, connections.url_line)


def _count(exchange: Exchange, gateway: Gateway) -> None:
    """Tell of a request that is over: once, to the metrics and to the debug log."""
    if not exchange.is_inference:
        return
    lease = exchange.lease
    status = CLIENT_CLOSED_REQUEST if exchange.client_gone else exchange.status
    if lease is None:
        policy, worker = gateway.scheduler.policy_name(ROLE), ""
    else:
        policy, worker = lease.policy, lease.worker.id
    gateway.metrics.request_done(policy, ROLE, worker, status)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "request %s %s worker=%s status=%d seconds=%.4f",
            exchange.request_id.decode("latin-1"),
            exchange.target.decode("latin-1"),
            worker or "-",
            status,
            gateway.loop.time() - exchange.complete_at,
        )
