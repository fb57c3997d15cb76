"""The scheduler: choosing a worker and counting the request in are one step, without an await between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.errors import Full, NoPair, NoWorker, PolicyError
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.exact_matches import exact_matches
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.pairs import PairLease, PairPool
from warmroute.scheduling.policy import Policy, bare, is_paced, policy_label, reads_matches, scores_of, takes_turns
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.witness import Witness
from warmroute.scheduling.worker import Candidate, EngineReport, Pool, Role, Worker

__all__ = ["Full", "NoPair", "NoWorker", "PolicyError", "Scheduler"]


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
        learns_decode: bool = False,
    ) -> None:
        """`learns_decode`: keep what decode workers of pairs hold though their policy does not read it."""
        self.index = index
        self.exact: ExactIndex | None = None
        """Whoever follows KV events sets it."""
        self.ledger = ledger
        # Without their names: the wrapper that carries one would be a call more for every decision.
        self._policies: dict[Role, Policy] = {}
        self._names: dict[Role, str] = {}
        self._takes_turns: dict[Role, bool] = {}
        self._paced: set[Role] = set()
        self._learns_decode = learns_decode
        self._learns_decode_half = learns_decode
        self._clock = clock
        self.use(policies)
        self._rng = rng

    def use(self, policies: Mapping[Role, Policy]) -> None:
        """Let these policies decide from the next request on; those of other roles stay."""
        for role, choose in policies.items():
            self._policies[role] = bare(choose)
            self._names[role] = policy_label(choose)
            self._takes_turns[role] = takes_turns(choose)
            self._paced.discard(role)
            if is_paced(self._policies[role]):
                self._paced.add(role)
                self._policies[role].clock = self._clock  # type: ignore[attr-defined]  # what its mark promises
            if role == "decode":
                self._learns_decode_half = self._learns_decode or reads_matches(self._policies[role])

    def policy_name(self, role: Role) -> str:
        """The name of the policy that decides for a role."""
        return self._names[role]

    def select(self, prompt: Prompt, pool: Pool, *, excluding: Collection[Worker] = (), is_half: bool = False) -> Lease:
        """Choose a worker of the pool for this prompt and open a lease on it.

        A decode worker that is chosen this way does the whole work alone, its prefill included, unless this `is_half`
        of a pair, the other half of which was chosen before. Raises NoWorker if no worker is left, PolicyError if the
        policy fails; nothing is counted then.
        """
        candidates = _left(pool.candidates, excluding) if excluding else pool.candidates
        if not candidates:
            raise NoWorker(pool.role, prompt.model)
        matched = self._show_matches(prompt)
        try:
            chosen = self._choose(candidates, prompt, pool, excluding)
            matched_tokens = chosen.matched_tokens
            if prompt.witness is not None:
                self._testify(prompt, pool.role, candidates, chosen)
        finally:
            for worker in matched:
                worker.candidate.matched_tokens = 0
        return self._open(chosen.worker, prompt, matched_tokens, is_half=is_half)

    def select_pair(
        self,
        prompt: Prompt,
        pairs: PairPool,
        *,
        excluding_prefill: Collection[Worker] = (),
        excluding_decode: Collection[Worker] = (),
    ) -> PairLease:
        """Choose a prefill worker, then a decode worker that can take over from it, and open a lease on both.

        Among rows that show a policy the same figures, near pairs are preferred (not with a policy that takes turns).
        Raises NoPair if no pair is left, PolicyError if a policy fails; nothing is counted then.
        """
        prefill_rows = pairs.prefill.candidates
        if excluding_prefill:
            prefill_rows = _left(prefill_rows, excluding_prefill)
        if excluding_decode:
            prefill_rows = [
                row for row in prefill_rows if _left(pairs.decode_for(row.worker).candidates, excluding_decode)
            ]
        if not prefill_rows:
            raise NoPair(prompt.model, pairs.why_none)
        matched = self._show_matches(prompt)
        try:
            prefill = self._choose(prefill_rows, prompt, pairs.prefill, excluding_prefill)
            near = pairs.near(prefill.worker)
            if not near:
                prefill = self._nearer(prefill, prefill_rows, pairs.prefill, lambda row: bool(pairs.near(row.worker)))
                near = pairs.near(prefill.worker)
            pool = pairs.decode_for(prefill.worker)
            decode_rows = _left(pool.candidates, excluding_decode) if excluding_decode else pool.candidates
            decode = self._choose(decode_rows, prompt, pool, excluding_decode)
            if near and decode.worker not in near:
                decode = self._nearer(decode, decode_rows, pool, lambda row: row.worker in near)
            if prompt.witness is not None:
                self._testify(prompt, pairs.prefill.role, prefill_rows, prefill)
                self._testify(prompt, pool.role, decode_rows, decode)
            prefill_tokens, decode_tokens = prefill.matched_tokens, decode.matched_tokens
        finally:
            for worker in matched:
                worker.candidate.matched_tokens = 0
        first = self._open(prefill.worker, prompt, prefill_tokens, is_half=True)
        return PairLease(first, self._open(decode.worker, prompt, decode_tokens, is_half=True))

    def _testify(self, prompt: Prompt, role: Role, candidates: Sequence[Candidate], chosen: Candidate) -> None:
        """Tell the prompt's witness, while the rows still show what the policy saw."""
        witness = prompt.witness
        if isinstance(witness, Witness):
            scores = scores_of(self._policies[role], candidates, prompt)
            witness.chose(role, self._names[role], candidates, chosen, scores)

    def _show_matches(self, prompt: Prompt) -> Mapping[Worker, int]:
        """Write each worker's match into its row; whoever calls this resets them."""
        matched: Mapping[Worker, int]
        if prompt.blocks is not None and self.exact is not None:
            matched = exact_matches(prompt, prompt.blocks, self.exact, self.index)
        elif prompt.fingerprint:
            matched = self.index.match(prompt.fingerprint)
        else:
            return {}
        limit = prompt.tokens
        # Rows are kept between decisions and say "nothing matched", so only those that matched are written.
        for worker, tokens in matched.items():
            worker.candidate.matched_tokens = tokens if tokens < limit else limit
        return matched

    def _open(self, worker: Worker, prompt: Prompt, matched_tokens: int, *, is_half: bool = False) -> Lease:
        role, fingerprint = worker.role, prompt.fingerprint
        # The decode half of a pair gets its prompt prefilled elsewhere.
        prefills = not is_half or role != "decode"
        index = self.index if fingerprint and not worker.departed and (prefills or self._learns_decode_half) else None
        lease = self.ledger.open(worker, prompt, matched_tokens, self._names[role], index, prefills=prefills)
        if index is not None:
            lease.last_used = index.claim(worker, fingerprint, self._clock(), lease.serial)
        if role in self._paced:
            pace, uncached = worker.candidate.pace, lease.uncached_tokens
            pace.placed += uncached / max(1, worker.cache_tokens)
            if prefills:
                # A prefill worker answers with one token: that is the first, whatever the client asked for.
                streamed = worker.tells_prefill if role == "prefill" else prompt.stream
                lease.expectation = pace.expect(uncached, matched_tokens, self._clock, streamed=streamed)
        return lease

    def _nearer(
        self, chosen: Candidate, rows: Sequence[Candidate], pool: Pool, is_near: Callable[[Candidate], bool]
    ) -> Candidate:
        """Of the rows that show a policy the same figures as the chosen one, one that is near, if there is one."""
        if self._takes_turns[pool.role]:
            return chosen
        figures = _figures(chosen)
        equals = [row for row in rows if is_near(row) and _figures(row) == figures]
        return self._rng.choice(equals) if equals else chosen

    def forget(self, worker: Worker) -> None:
        """Forget what is known of a worker's cache: it was removed or has restarted. Its open leases stay valid."""
        self.index.purge(worker)
        self.ledger.forget(worker)

    def _choose(
        self, candidates: Sequence[Candidate], prompt: Prompt, pool: Pool, excluding: Collection[Worker]
    ) -> Candidate:
        decide: Callable[..., object] = self._policies[pool.role]  # one of somebody else may return whatever
        try:
            chosen = decide(candidates, prompt, self._rng)
        except Exception as error:  # or raise
            raise PolicyError(self._names[pool.role], f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(chosen, Candidate) or chosen not in pool.members or chosen.worker in excluding:
            raise PolicyError(self._names[pool.role], f"returned {chosen!r}, which is not one of its candidates")
        return chosen


def _left(rows: Sequence[Candidate], excluding: Collection[Worker]) -> Sequence[Candidate]:
    return [row for row in rows if row.worker not in excluding] if excluding else rows


def _figures(row: Candidate) -> tuple[int, int, int, int, EngineReport | None]:
    """All that a policy can tell two workers apart by."""
    load = row.load
    return (
        load.running_requests,
        load.pending_prefill_tokens,
        load.active_tokens,
        row.matched_tokens,
        row.report,
    )
