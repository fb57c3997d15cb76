"""When a decode worker serves without a prefill worker, and that it does so as a mixed worker would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmroute.engines.dialect import Request
from warmroute.gateway.attempts import Attempts
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.held import HeldAnswer
from warmroute.gateway.pd.failure import LegFailed
from warmroute.gateway.pd.tried import Tried
from warmroute.gateway.single import serve_from
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pairs import PairLease
from warmroute.scheduling.worker import Pool

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

NO_PREFILL = "no_prefill"
"""No prefill worker is usable, and the engine can do without."""
CACHED = "cached"
"""The decode worker holds all but a few tokens of the prompt."""


def reason_for_alone(request: Request, decode: Pool, gateway: Gateway) -> str | None:
    """Why no pair can serve this request at all, as the dialect of the decode workers says; None if one can."""
    if not decode.candidates:
        return None
    dialect = gateway.fleet.dialect(decode.candidates[0].worker)
    return None if dialect is None else dialect.alone_because(request)


def serves_alone(pair: PairLease, gateway: Gateway) -> bool:
    """Whether the decode worker of this pair can do without prefill."""
    dialect = gateway.fleet.dialect(pair.decode.worker)
    return dialect is not None and dialect.decodes_alone


async def try_cached(pair: PairLease, exchange: Exchange, prompt: Prompt, gateway: Gateway) -> None:
    """Let the decode worker of the pair serve alone. LegFailed if it gives no byte of an answer."""
    worker = pair.decode.worker
    pair.release(Outcome.ABORTED)
    gateway.metrics.pd_decode_alone(CACHED)
    pool = Pool("decode", (worker.candidate,))
    await serve_from(lambda: pool, exchange, prompt, gateway, _OnlyAttempt())


class _OnlyAttempt(Attempts):
    """One after which a pair may serve."""

    def give_up(self, exchange: Exchange) -> None:
        """The client gets nothing of it."""
        cause = self.answer or self.error
        if exchange.started or exchange.client_gone or not isinstance(cause, UpstreamError | HeldAnswer):
            return super().give_up(exchange)
        raise LegFailed("decode", self.tried[-1], cause, is_told=True)


def may_serve_alone(prompt: Prompt, tried: Tried, gateway: Gateway) -> bool:
    """Whether a decode worker that has not failed yet can and may serve without a prefill worker."""
    return not tried.is_answered and gateway.fleet.decode_alone(prompt.model).is_left(tried.decode)


async def serve_without_prefill(exchange: Exchange, prompt: Prompt, tried: Tried, gateway: Gateway) -> None:
    """Let such a worker serve alone."""

    def pool() -> Pool:
        return gateway.fleet.decode_alone(prompt.model)

    gateway.metrics.pd_decode_alone(NO_PREFILL)
    await serve_from(pool, exchange, prompt, gateway, Attempts(tried.decode, tried.error, tried.count, tried.reason))
