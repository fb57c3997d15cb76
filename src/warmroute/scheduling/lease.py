"""The lease: what one request holds on one worker, given back as one thing."""

from __future__ import annotations

import logging
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.pace import Expectation
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Worker

if TYPE_CHECKING:
    from warmroute.scheduling.ledger import Entry, Ledger

_log = logging.getLogger(__name__)


class Outcome(Enum):
    """How a request ended on its worker."""

    SERVED = auto()
    """The worker gave its whole answer, whatever its status."""
    FAILED = auto()
    """The worker gave no answer, or broke off."""
    ABORTED = auto()
    """The client left."""


_SERVED = Outcome.SERVED  # an attribute of an Enum costs a call


class Lease(Struct, eq=False):  # a struct, because one is made for every request
    """Opened by `Scheduler.select`, closed by `release`; both methods may be called any number of times.

    `first_token` gives the pending prefill back and lets the index rely on the placement, `release` gives back the
    rest. A lease that is collected while it is open gives everything back by itself, is counted
    (`Ledger.lost_leases`) and logged: its owner forgot it.
    """

    _ledger: Ledger
    _entry: Entry | None
    _index: PrefixIndex | None
    serial: int
    """Unique among the leases of a ledger; names this request's claims in the index."""
    worker: Worker
    prompt: Prompt
    matched_tokens: int
    uncached_tokens: int
    policy: str
    expectation: Expectation | None = None
    """When the prefill should be done, for a policy that wants to know how that went."""
    last_used: float = inf
    """When the deepest of the matched tokens had last been used; -inf if no answer has confirmed them."""
    opened_at: str = ""
    """The stack that opened the lease, if the ledger keeps that."""

    @property
    def is_open(self) -> bool:
        """Whether this lease still holds anything."""
        return self._entry is not None

    def first_token(self) -> None:
        """The worker has begun to answer: its prefill of this prompt is done."""
        entry = self._entry
        if entry is None:
            return
        entry.load.pending_prefill_tokens -= entry.prefill_tokens
        entry.prefill_tokens = 0
        if (expectation := self.expectation) is not None:
            self.expectation = None
            expectation.met()
        index = self._index
        if index is not None:
            self._index = None
            index.confirm(self.serial)

    def release(self, outcome: Outcome) -> None:
        """Give back everything. A request that ended before its first token, and not well, is not learned from."""
        entry = self._entry
        if entry is None:
            return
        self._entry = None
        self._ledger.close(entry)
        if (expectation := self.expectation) is not None:
            self.expectation = None
            if outcome is _SERVED:  # it came in one piece, its first token with it
                expectation.met()
            else:
                expectation.void()
        index = self._index
        if index is None:
            return
        self._index = None
        if outcome is _SERVED:
            index.confirm(self.serial)
        else:
            index.retract(self.worker, self.prompt.fingerprint, self.serial)

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"Lease({self.worker.id!r}, {state}, uncached_tokens={self.uncached_tokens}, policy={self.policy!r})"

    def __del__(self) -> None:
        # May run inside any other statement, so it does nothing but arithmetic on the books and one append.
        entry = self._entry
        if entry is None:
            return
        self._ledger.close(entry)
        self._ledger.lost_leases += 1
        if self.expectation is not None:
            self.expectation.void()
        if self._index is not None:
            self._index.abandon(self.worker, self.prompt.fingerprint, self.serial)
        opened_at = f"; opened at\n{self.opened_at}" if self.opened_at else ""
        _log.warning(
            "a lease on %s was dropped without being released; its load is right again, please report this%s",
            self.worker.id,
            opened_at,
        )
