"""Serving an exchange by a pair, top-down: select, hand over, learn from a failure and try others.

A pair is both leases or none. Before the client has got a byte, the side that failed is replaced by a worker that this
request has not tried, and the pair is sent anew; `verdict.py` says when.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from warmroute.engines.dialect import Request
from warmroute.fleet.verdict import Verdict
from warmroute.gateway.attempts import may_try_again, tell_failure
from warmroute.gateway.errors import NoPairAvailable, Overloaded, UpstreamError
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.pd.alone import (
    may_serve_alone,
    reason_for_alone,
    serve_without_prefill,
    serves_alone,
    try_cached,
)
from warmroute.gateway.pd.failure import LegFailed
from warmroute.gateway.pd.pair_run import PairRun
from warmroute.gateway.pd.tried import Tried
from warmroute.gateway.pd.verdict import side_at_fault
from warmroute.gateway.single import check_model, serve_from
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pairs import PairLease, PairPool
from warmroute.scheduling.scheduler import Full, NoPair
from warmroute.scheduling.worker import Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

# An attribute of an Enum costs a call.
_FAILED, _SERVED = Outcome.FAILED, Outcome.SERVED


def serve_pair(exchange: Exchange, prompt: Prompt, gateway: Gateway) -> Awaitable[None]:
    """Let a prefill and a decode worker answer the exchange, or a decode worker alone where a pair cannot.

    To be awaited; a coroutine of its own would only be one more to pass.
    """
    # What a client calls its request need not be unique.
    own_id = exchange.request_id if exchange.head.request_id is None else gateway.new_request_id()
    fields, exchange.fields = exchange.fields, None
    request = Request(exchange.body, exchange.kind, prompt.stream, own_id.decode("ascii"), fields=fields)
    exchange.request = request
    pairs = gateway.fleet.pairs(prompt.model)
    if gateway.strict_models:
        check_model(prompt.model, pairs.decode, gateway)
    reason = reason_for_alone(request, pairs.decode, gateway)
    if reason is not None:
        gateway.metrics.pd_decode_alone(reason)
        return serve_from(lambda: gateway.fleet.pairs(prompt.model).decode, exchange, prompt, gateway)
    return _try_pairs(pairs, exchange, prompt, gateway)


async def _try_pairs(pairs: PairPool, exchange: Exchange, prompt: Prompt, gateway: Gateway) -> None:
    tried = Tried()
    while True:
        # What goes wrong is put down, and waited for outside of the handlers: nothing may be waited for in there.
        pair: PairLease | None = None
        failure: LegFailed | None = None
        is_any_left = True
        try:
            pair = gateway.scheduler.select_pair(
                prompt, pairs, excluding_prefill=tried.prefill, excluding_decode=tried.decode
            )
        except Full:
            pass
        except NoPair:
            is_any_left = False
        if pair is None:
            if not is_any_left:
                return await _without_pair(exchange, prompt, pairs, tried, gateway)
            try:
                await gateway.admission.for_pair(
                    exchange, prompt, lambda: gateway.fleet.pairs(prompt.model), tried.prefill, tried.decode
                )
            except Overloaded:
                if tried.answer is None:
                    raise
                return _give_up(exchange, pairs, tried)
            pairs = gateway.fleet.pairs(prompt.model)
            continue
        if tried.reason:
            gateway.metrics.failed_over(tried.reason)
            tried.reason = ""
        try:
            if pair.decode.uncached_tokens < gateway.pd.min_uncached_tokens and serves_alone(pair, gateway):
                return await try_cached(pair, exchange, prompt, gateway)
            if not await _hand_over(exchange, pair, pairs, tried, gateway):
                return
            tried.gave_back(pair.decode.worker, avoid=gateway.pd.avoids_who_gave_back)
        except LegFailed as failed:
            failure = failed
            failure.__traceback__ = None  # else the frames that it came through would hold it, and it them
        if failure is not None:
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("request %s: %s", exchange.request_id.decode("latin-1"), failure)
            await _learn(failure, pair, exchange, tried, gateway)
            if not (failure.is_told or _may_go_on(failure, tried, exchange, prompt, gateway)):
                return _give_up(exchange, pairs, tried)
            exchange.request = exchange.request.again()
        pairs = gateway.fleet.pairs(prompt.model)


async def _hand_over(exchange: Exchange, pair: PairLease, pairs: PairPool, tried: Tried, gateway: Gateway) -> bool:
    """Let the pair answer. Returns whether the engines gave the request back; it is then the one for another pair."""
    exchange.lease = pair
    first, second = pair.prefill.worker, pair.decode.worker
    if first.suspect or second.suspect:
        _begin_attempt((first, second), exchange, gateway)
    run = PairRun(exchange, pair, gateway, tried.decode)
    outcome = _FAILED
    try:
        dialect, prefill, decode = gateway.fleet.handshake(first, second)
        handover = dialect.begin(exchange.request, prefill, decode, gateway.rng)
        may_be_given_back = handover.reschedule is not None and _may_give_back(pair, pairs, tried, gateway)
        answered = run.answer(handover, may_be_given_back=may_be_given_back)
        del handover  # it has the bodies, and the answer may take long
        await answered
        if not run.is_given_back and exchange.status < 400:
            outcome = _SERVED
        if first.suspect or pair.decode.worker.suspect:
            _judge_others(pair, Verdict.OK if outcome is _SERVED else Verdict.NEUTRAL, exchange, gateway)
        return run.is_given_back
    except LegFailed as failure:
        _judge_others(pair, Verdict.NEUTRAL, exchange, gateway, but=failure.worker)
        raise
    except UpstreamError as error:
        _judge_others(pair, Verdict.NEUTRAL, exchange, gateway, but=pair.decode.worker)
        tell_failure(pair.decode.worker, error, exchange, gateway)
        raise
    except BaseException as other:
        if isinstance(other, asyncio.CancelledError):
            outcome = Outcome.ABORTED
        _judge_others(pair, Verdict.NEUTRAL, exchange, gateway)
        raise
    finally:
        run.close(outcome)


def _begin_attempt(workers: tuple[Worker, ...], exchange: Exchange, gateway: Gateway) -> None:
    for worker in workers:
        if worker.suspect:
            gateway.fleet.attempt_started(worker, exchange.request_id)


def _judge_others(
    pair: PairLease, verdict: Verdict, exchange: Exchange, gateway: Gateway, but: Worker | None = None
) -> None:
    """Tell the fleet of those workers of the pair that it waits to hear of."""
    for worker in (pair.prefill.worker, pair.decode.worker):
        if worker.suspect and worker is not but:
            gateway.fleet.judge(worker, verdict, exchange.request_id)


def _may_give_back(pair: PairLease, pairs: PairPool, tried: Tried, gateway: Gateway) -> bool:
    """Whether another pair may be asked if the engines give this request back; else the client gets that answer."""
    if tried.give_backs >= gateway.pd.give_backs:
        return False
    if not gateway.pd.avoids_who_gave_back:
        return True
    return pairs.is_pair_left(tried.prefill, {*tried.decode, pair.decode.worker})


def _may_go_on(failure: LegFailed, tried: Tried, exchange: Exchange, prompt: Prompt, gateway: Gateway) -> bool:
    """Whether anybody is left who may try again. The budget is not spent on nobody."""
    pairs = gateway.fleet.pairs(prompt.model)
    if not pairs.is_pair_left(tried.prefill, tried.decode) and not may_serve_alone(prompt, tried, gateway):
        return False
    return may_try_again(failure.cause, tried.count, exchange, gateway)


async def _learn(failure: LegFailed, pair: PairLease, exchange: Exchange, tried: Tried, gateway: Gateway) -> None:
    """Find out which side to replace, and tell who has to know."""
    prefill = pair.prefill.worker
    blames_prefill = side_at_fault(failure.side, failure.event, prefill_reachable=False) != failure.side
    is_well = not blames_prefill or await _is_well(prefill, gateway)
    side = side_at_fault(failure.side, failure.event, prefill_reachable=is_well)
    tried.add(side, failure.worker if side == failure.side else prefill)
    tried.note(failure.cause, prefill_reachable=is_well)
    if failure.is_told:
        return
    if is_well:
        tried.reason = tell_failure(failure.worker, failure.cause, exchange, gateway)
        return
    tried.reason = "lost"
    gateway.metrics.attempt_failed(tried.reason)
    gateway.failures.failed(exchange.request_id, failure.worker, failure.reason)
    gateway.fleet.worker_refused(prefill)
    if failure.worker.suspect:
        gateway.fleet.judge(failure.worker, Verdict.NEUTRAL, exchange.request_id)


async def _is_well(worker: Worker, gateway: Gateway) -> bool:
    """A process that is being ended still takes connections for a moment, and an engine may die behind its server."""
    return await gateway.loop.create_task(gateway.fleet.is_well(worker))


async def _without_pair(exchange: Exchange, prompt: Prompt, pairs: PairPool, tried: Tried, gateway: Gateway) -> None:
    """No pair is left: a decode worker alone, else the last answer of an engine, else what the last leg failed with."""
    if exchange.client_gone:
        raise asyncio.CancelledError
    try:
        if may_serve_alone(prompt, tried, gateway):
            return await serve_without_prefill(exchange, prompt, tried, gateway)
    except UpstreamError:
        if exchange.started or tried.answer is None:
            raise
    _give_up(exchange, pairs, tried)


def _give_up(exchange: Exchange, pairs: PairPool, tried: Tried) -> None:
    """Answer with the last answer of an engine, if there was one, else raise what the last leg failed with."""
    if exchange.client_gone:
        raise asyncio.CancelledError
    if tried.answer is None:
        raise tried.error or NoPairAvailable(pairs.why_none)
    tried.answer.pass_to(exchange)
