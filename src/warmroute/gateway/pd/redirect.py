"""Another decode worker for a prompt that has been computed: the one that was chosen may be out of order by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmroute.fleet.verdict import Verdict
from warmroute.gateway.exchange import Exchange
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pairs import PairLease
from warmroute.scheduling.scheduler import Full, NoWorker
from warmroute.scheduling.worker import Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway


def choose_decode_anew(pair: PairLease, tried: tuple[Worker, ...], exchange: Exchange, gateway: Gateway) -> bool:
    """Give the decode half of a pair to another worker, with a lease of its own. False if there is none that may.

    What the prefill worker has computed waits there for a while only, so that nobody waits for a place here.
    """
    before = pair.decode
    pool = gateway.fleet.pairs(pair.prompt.model).decode_for(pair.prefill.worker)
    try:
        lease = gateway.scheduler.select(pair.prompt, pool, excluding=(*tried, before.worker), is_half=True)
    except (Full, NoWorker):
        return False
    before.release(Outcome.ABORTED)
    if before.worker.suspect:
        gateway.fleet.judge(before.worker, Verdict.NEUTRAL, exchange.request_id)
    pair.decode_with(lease)
    if lease.worker.suspect:
        gateway.fleet.attempt_started(lease.worker, exchange.request_id)
    return True
