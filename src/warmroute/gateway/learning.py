"""Learning from an answer that has ended well: its usage tells how much of the prompt the engine had cached.

Only what engines write by themselves is read; nothing is asked for, and an answer without usage teaches nothing. Pairs
of workers are left out: what a decode engine says of its cache is no word on the prefill worker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmroute.engines.usage import CACHED_TOKENS, read_usage
from warmroute.gateway.exchange import Exchange
from warmroute.scheduling.answers import learn
from warmroute.scheduling.lease import Lease

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway


def learn_from_usage(exchange: Exchange, lease: Lease, gateway: Gateway) -> None:
    """Correct the index by the end of the answer, if that has usage with cached tokens, and count them."""
    tail = exchange.answer_tail
    if CACHED_TOKENS not in tail:
        return
    usage = read_usage(tail)
    if usage is None:
        return
    scheduler = gateway.scheduler
    believed = learn(lease, usage.prompt_tokens, usage.cached_tokens, scheduler.index, scheduler.exact)
    gateway.metrics.cache_reported(lease.worker.tally, usage.prompt_tokens, usage.cached_tokens, believed)
