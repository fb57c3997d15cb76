"""Prefill and decode workers as pairs: which can work together, and what one request holds on both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.worker import Pool, Worker

_NOBODY = Pool("decode")


def _none_near(prefill: Worker) -> frozenset[Worker]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class PairPool:
    """The routable pairs for one model. Rebuilt when the fleet changes.

    `prefill` holds only workers that have a `compatible` decode worker, `decode` all that are routable. `near` gives
    those compatible decode workers of a prefill worker that are preferred among equals. `why_none` tells an operator
    why there is no pair at all.
    """

    prefill: Pool = field(default=Pool("prefill"))
    decode: Pool = field(default=_NOBODY)
    compatible: Mapping[Worker, Pool] = field(default_factory=dict)
    near: Callable[[Worker], frozenset[Worker]] = _none_near
    why_none: str = ""

    def decode_for(self, prefill: Worker) -> Pool:
        """The decode workers that can take over from this prefill worker."""
        return self.compatible.get(prefill, _NOBODY)

    def is_pair_left(self, excluding_prefill: Collection[Worker], excluding_decode: Collection[Worker]) -> bool:
        """Whether there is a pair without any of these."""
        return any(
            row.worker not in excluding_prefill and self.decode_for(row.worker).is_left(excluding_decode)
            for row in self.prefill.candidates
        )


class PairLease:
    """What one request holds on a prefill and on a decode worker: opened together, given back each in its time."""

    __slots__ = ("decode", "matched_tokens", "policy", "prefill", "prompt", "worker")

    def __init__(self, prefill: Lease, decode: Lease) -> None:
        self.prefill = prefill
        self.prompt = prefill.prompt
        """What was placed."""
        self.matched_tokens = prefill.matched_tokens
        """How many tokens of the prompt the worker that computes it was believed to hold."""
        self.decode_with(decode)

    def decode_with(self, decode: Lease) -> None:
        """What the request holds on whoever decodes; a lease before that is the caller's to give back."""
        self.decode = decode
        self.worker = decode.worker
        """The worker whose answer is the client's."""
        self.policy = decode.policy
        """The policy that chose that worker."""

    def first_token(self) -> None:
        """The decode worker has begun to answer, so the prefill is done and both hold the prompt."""
        self.prefill.first_token()
        self.decode.first_token()

    @property
    def is_open(self) -> bool:
        """Whether either side still holds anything."""
        return self.prefill.is_open or self.decode.is_open

    def release(self, outcome: Outcome) -> None:
        """Give back what is still held on both sides; idempotent."""
        self.prefill.release(outcome)
        self.decode.release(outcome)
