"""The scheduler with a limit: no worker gets more than so many requests at once.

The router is made with these classes only if there is a limit; without one nothing of this is run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.errors import Full, NoPair
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.ledger import Entry, Ledger
from warmroute.scheduling.pairs import PairLease, PairPool
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Pool, Role, Worker


class WatchedLedger(Ledger):
    """A ledger that tells when a place on a worker has become free."""

    def __init__(self, *, keep_stacks: bool = False) -> None:
        super().__init__(keep_stacks=keep_stacks)
        self.on_close: Callable[[], None] = _nobody_listens

    def close(self, entry: Entry) -> None:
        """Count a request out, and tell."""
        super().close(entry)
        self.on_close()


class LimitedScheduler(Scheduler):
    """Chooses among the workers that have a place left. Raises Full where there are workers, but no place.

    `someone_waits`: then every choice raises Full, for whoever waits comes first, and places are given away in order.
    """

    def __init__(
        self,
        policies: Mapping[Role, Policy],
        index: PrefixIndex,
        ledger: WatchedLedger,
        *,
        limit: int,
        rng: Random,
        clock: Callable[[], float],
        learns_decode: bool = False,
    ) -> None:
        super().__init__(policies, index, ledger, rng=rng, clock=clock, learns_decode=learns_decode)
        self.places = ledger
        self.someone_waits = False
        self._limit = limit

    def select(self, prompt: Prompt, pool: Pool, *, excluding: Collection[Worker] = (), is_half: bool = False) -> Lease:
        """As Scheduler does, but raises Full if all workers that are left have as many requests as they may."""
        full = self._full(pool)
        if full or self.someone_waits:
            if (self.someone_waits and pool.is_left(excluding)) or self.must_wait(pool, excluding):
                raise Full
            excluding = {*excluding, *full}
        return super().select(prompt, pool, excluding=excluding, is_half=is_half)

    def select_pair(
        self,
        prompt: Prompt,
        pairs: PairPool,
        *,
        excluding_prefill: Collection[Worker] = (),
        excluding_decode: Collection[Worker] = (),
    ) -> PairLease:
        """The same for a pair: each of its workers must have a place left."""
        if self.someone_waits and pairs.is_pair_left(excluding_prefill, excluding_decode):
            raise Full
        full_prefill, full_decode = self._full(pairs.prefill), self._full(pairs.decode)
        try:
            return super().select_pair(
                prompt,
                pairs,
                excluding_prefill={*excluding_prefill, *full_prefill} if full_prefill else excluding_prefill,
                excluding_decode={*excluding_decode, *full_decode} if full_decode else excluding_decode,
            )
        except NoPair:
            if pairs.is_pair_left(excluding_prefill, excluding_decode):
                raise Full from None
            raise

    def must_wait(self, pool: Pool, excluding: Collection[Worker]) -> bool:
        """Whether there are workers left, and none of them has a place."""
        rows = [row for row in pool.candidates if row.worker not in excluding]
        return bool(rows) and all(row.load.running_requests >= self._limit for row in rows)

    def pair_must_wait(
        self, pairs: PairPool, excluding_prefill: Collection[Worker], excluding_decode: Collection[Worker]
    ) -> bool:
        """Whether there are pairs left, and none of them has a place on both sides."""
        if not pairs.is_pair_left(excluding_prefill, excluding_decode):
            return False
        full_prefill, full_decode = self._full(pairs.prefill), self._full(pairs.decode)
        return not pairs.is_pair_left({*excluding_prefill, *full_prefill}, {*excluding_decode, *full_decode})

    def _full(self, pool: Pool) -> list[Worker]:
        limit = self._limit
        return [row.worker for row in pool.candidates if row.load.running_requests >= limit]


def _nobody_listens() -> None:
    """Until somebody does."""
