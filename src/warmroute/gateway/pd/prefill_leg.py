"""The prefill leg: its answer is drained, or collected if it is needed. It may outlive the exchange for a moment."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from warmroute.engines.dialect import MAX_HELD_BYTES
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.verdict import Side, event_of, status_of
from warmroute.scheduling.lease import Outcome

logger = logging.getLogger(__name__)

_SERVED = Outcome.SERVED  # an attribute of an Enum costs a call

LINGER_SECONDS = 5.0
"""How long a prefill leg may go on after the client has the whole answer."""


class PrefillLeg(Leg):
    """What is collected of its answer is in `answer`, unless it is too long."""

    side: ClassVar[Side] = "prefill"
    drops_good = True
    answer = b""
    has_ended = False
    has_begun = False
    _timer: asyncio.TimerHandle | None = None
    _is_too_long = False

    def end(self, outcome: Outcome, status: int) -> None:
        """Give the lease back and count the leg with its status (0: not at all). Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._gateway.pd.lingering.discard(self)
        lease = self.lease
        if lease.is_open:
            lease.release(outcome)
            if status:
                self._gateway.metrics.request_done(lease.policy, "prefill", lease.worker.id, status)

    def begun(self) -> None:
        """The prompt is computed, as the first byte of either leg's answer shows. Idempotent."""
        if not self.has_begun:
            self.has_begun = True
            tally = self.lease.worker.tally
            tally.first_tokens += 1
            tally.ttft_seconds += self._gateway.loop.time() - self._exchange.complete_at

    def linger(self) -> None:
        """The client has the whole answer: let the worker end its own in peace, for a while."""
        if self.lease.is_open and self._connection is not None:
            self._gateway.pd.lingering.add(self)
            self._timer = self._gateway.loop.call_later(LINGER_SECONDS, self.give_up)
        else:
            self.end(_SERVED, self.status)

    def give_up(self) -> None:
        """Wait for its end no longer."""
        self.cancel()
        self.end(_SERVED, self.status)

    def _accept(self, body: bytes, complete: bool) -> None:
        if body:
            if not self.has_begun:
                self.begun()
            if not complete:
                self.lease.first_token()
        if complete:
            self.has_ended = True
            self.end(_SERVED, self.status)
        if self.collects:
            self._add(body, complete)

    def _add(self, body: bytes, complete: bool) -> None:
        """Collect the answer; whoever needs it hears when it is whole."""
        if not self._is_too_long:
            held = self._collect(body)
            if len(held) > MAX_HELD_BYTES:
                self._is_too_long = True
                self._held = None
            elif complete:
                self.answer = bytes(held)
        if complete and self._run is not None:
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
