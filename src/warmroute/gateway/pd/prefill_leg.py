"""The prefill leg: its answer is drained, or collected if it is needed. It may outlive the exchange for a moment."""

from __future__ import annotations

import asyncio
import logging
import re
from time import perf_counter
from typing import TYPE_CHECKING

from warmroute.engines.dialect import MAX_HELD_BYTES
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.verdict import event_of, status_of
from warmroute.scheduling.lease import Lease, Outcome

if TYPE_CHECKING:
    from warmroute.gateway.pd.pair_run import PairRun

logger = logging.getLogger(__name__)

LINGER_SECONDS = 5.0
"""How long a prefill leg may go on after the client has the whole answer."""

_ACCEPT_ENCODING = re.compile(rb"^accept-encoding:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


class PrefillLeg(Leg):
    """`collects`: its answer is needed."""

    side = "prefill"

    def __init__(self, run: PairRun, lease: Lease) -> None:
        super().__init__(run, lease)
        self.collects = False
        self.has_ended = False
        self._has_begun = False
        self._disaggregation = run.gateway.pd
        self._metrics = run.gateway.metrics
        self._loop = run.gateway.loop
        self._timer: asyncio.TimerHandle | None = None
        self._is_too_long = False

    @property
    def answer(self) -> bytes:
        """The collected answer; empty when it was too long."""
        return b"" if self._is_too_long else bytes(self._held)

    def end(self, outcome: Outcome, status: int) -> None:
        """Give the lease back and count the leg with its status (0: not at all). Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._disaggregation.lingering.discard(self)
        if self.lease.is_open:
            self.lease.release(outcome)
            if status:
                self._metrics.request_done(self.lease.policy, self.side, self.lease.worker.id, status)

    def begun(self) -> None:
        """The prompt is computed, as the first byte of either leg's answer shows. Idempotent."""
        if not self._has_begun:
            self._has_begun = True
            tally = self.lease.worker.tally
            tally.first_tokens += 1
            tally.ttft_seconds += self._loop.time() - self._exchange.complete_at

    def linger(self) -> None:
        """The client has the whole answer: let the worker end its own in peace, for a while."""
        if self.lease.is_open and self._connection is not None:
            self._disaggregation.lingering.add(self)
            self._timer = self._loop.call_later(LINGER_SECONDS, self.give_up)
        else:
            self.end(Outcome.SERVED, self.status)

    def give_up(self) -> None:
        """Wait for its end no longer."""
        self.cancel()
        self.end(Outcome.SERVED, self.status)

    def _mark_sent(self) -> None:
        self._exchange.sent_at = perf_counter()

    def _head_to_send(self, head: bytes) -> bytes:
        # What is to be read must not come compressed.
        if self.collects and b"accept-encoding" in head.lower():
            return _ACCEPT_ENCODING.sub(b"", head)
        return head

    def _accept(self, body: bytes, complete: bool) -> None:
        if body:
            self.begun()
            if not complete:
                self.lease.first_token()
        if self.collects and not self._is_too_long:
            self._held += body
            if len(self._held) > MAX_HELD_BYTES:
                self._is_too_long = True
                self._held.clear()
        if complete:
            self.has_ended = True
            self.end(Outcome.SERVED, self.status)
            if self._run is not None:
                self._run.prefill_ended()

    def _broken(self, error: UpstreamError) -> None:
        self._too_late(str(error), status_of(event_of(error)))

    def _too_late(self, what: str, status: int) -> None:
        logger.warning(
            "prefill worker %s, while the decode worker was answering already: %s; look into the log of that engine",
            self.lease.worker.id,
            what,
        )
        self.end(Outcome.FAILED, status)
