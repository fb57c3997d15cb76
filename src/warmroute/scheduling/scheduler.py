"""The scheduler: choosing a worker and counting the request in are one step, without an await between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.errors import NoWorker, PolicyError
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.policy import Policy, policy_label
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Candidate, Pool, Role, Worker

__all__ = ["NoWorker", "PolicyError", "Scheduler"]


class Scheduler:
    """Picks workers by the policy of their role and learns from every placement, whatever the policy."""

    def __init__(
        self,
        policies: Mapping[Role, Policy],
        index: PrefixIndex,
        ledger: Ledger,
        *,
        rng: Random,
        clock: Callable[[], float],
    ) -> None:
        self.index = index
        self.ledger = ledger
        self._policies = dict(policies)
        self._names = {role: policy_label(choose) for role, choose in policies.items()}
        self._rng = rng
        self._clock = clock

    def policy_name(self, role: Role) -> str:
        """The name of the policy that decides for a role."""
        return self._names[role]

    def select(self, prompt: Prompt, pool: Pool, *, excluding: Collection[Worker] = ()) -> Lease:
        """Choose a worker of the pool for this prompt and open a lease on it.

        Raises NoWorker if no worker is left, PolicyError if the policy fails; nothing is counted then.
        """
        candidates = pool.candidates
        if excluding:
            candidates = [candidate for candidate in candidates if candidate.worker not in excluding]
        if not candidates:
            raise NoWorker(pool.role, prompt.model)
        fingerprint = prompt.fingerprint
        matched = self.index.match(fingerprint) if fingerprint else {}
        limit = prompt.tokens
        # Rows are kept between decisions and say "nothing matched", so only those that matched are written.
        for worker, tokens in matched.items():
            worker.candidate.matched_tokens = tokens if tokens < limit else limit
        try:
            chosen = self._choose(candidates, prompt, pool, excluding)
            matched_tokens = chosen.matched_tokens
        finally:
            _reset(matched)
        worker = chosen.worker
        if not fingerprint:
            return self.ledger.open(worker, prompt, matched_tokens, self._names[pool.role])
        lease = self.ledger.open(worker, prompt, matched_tokens, self._names[pool.role], self.index)
        self.index.claim(worker, fingerprint, self._clock(), lease.serial)
        return lease

    def forget(self, worker: Worker) -> None:
        """Forget what is known of a worker's cache: it was removed or has restarted. Its open leases stay valid."""
        self.index.purge(worker)
        self.ledger.forget(worker)

    def _choose(
        self, candidates: Sequence[Candidate], prompt: Prompt, pool: Pool, excluding: Collection[Worker]
    ) -> Candidate:
        try:
            chosen = self._policies[pool.role](candidates, prompt, self._rng)
        except Exception as error:  # whatever a policy of somebody else may raise
            raise PolicyError(self._names[pool.role], f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(chosen, Candidate) or chosen not in pool.members or chosen.worker in excluding:
            raise PolicyError(self._names[pool.role], f"returned {chosen!r}, which is not one of its candidates")
        return chosen


def _reset(workers: Iterable[Worker]) -> None:
    for worker in workers:
        worker.candidate.matched_tokens = 0
