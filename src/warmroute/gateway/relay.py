"""The relay of one exchange: read the request, let it be served, count it. Who serves, the mode of the router says."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING

from warmroute.gateway.counting import count_request
from warmroute.gateway.errors import GatewayError, InternalError, InvalidBody, ShuttingDown, Unavailable
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.tracing import begin_trace, is_traced
from warmroute.prompts.body import BadRequest
from warmroute.prompts.fields import read_handover_fields
from warmroute.scheduling.errors import PolicyError

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

logger = logging.getLogger(__name__)


async def relay(exchange: Exchange, gateway: Gateway) -> None:
    """Answer one exchange. Never raises; when it returns, the exchange is over and nothing is held for it."""
    began = perf_counter()
    if exchange.target:  # else it was no inference request
        gateway.metrics.received += 1
    try:
        if exchange.refusal is not None:
            raise exchange.refusal
        if gateway.key_limits is not None and gateway.doorkeeper is not None:
            gateway.doorkeeper.enter(exchange, gateway.key_limits, gateway.loop.time())
        try:
            if gateway.hands_over:
                exchange.fields = read_handover_fields(exchange.body)
            prompt = gateway.read(exchange.body, exchange.kind, gateway.ladder, exchange.fields)
        except BadRequest as cause:
            raise InvalidBody(cause) from cause
        if gateway.tokenizer is not None and exchange.kind != "other":
            refined = gateway.tokenizer.refine(prompt, exchange.body, exchange.kind, gateway.ladder)
            prompt = await gateway.loop.create_task(refined)
        if gateway.explains_all or exchange.head.explain is not None:
            exchange.decision = gateway.explainer.begin(exchange.request_id, exchange.head, prompt)
            exchange.may_not_know = exchange.decision is None
        if gateway.tracer is not None and is_traced(exchange.head, gateway.tracer.sample_ratio, gateway.rng):
            exchange.trace = begin_trace(exchange, prompt, gateway.tracer, began)
        gateway.requests += 1
        await gateway.serve(exchange, prompt, gateway)
    except GatewayError as error:
        if isinstance(error, Unavailable):
            gateway.failures.unserved(exchange.request_id, error)
        exchange.fail(error)
        # The frames that it came through hold it, too: they would stay until the next garbage collection.
        error.__traceback__ = None
    except asyncio.CancelledError:
        # The client left, time is over, or the server stops and waits no longer. Nobody awaits this for its result.
        exchange.fail(exchange.expired or ShuttingDown())
    except PolicyError as fault:
        # Every request meets it: where in the policy it is shows at the debug level.
        gateway.failures.unserved(exchange.request_id, fault)
        logger.debug("policy %r", fault.policy, exc_info=fault)
        exchange.fail(InternalError())
    except Exception:
        logger.exception("request %s failed in the router", exchange.request_id.decode("latin-1"))
        exchange.fail(InternalError())
    finally:
        if exchange.key_holder >= 0 and gateway.key_limits is not None:
            gateway.key_limits.leave(exchange.key_holder)
        if exchange.target:
            count_request(exchange, gateway, began)
        exchange.finish()
