"""What one request has met with so far."""

from __future__ import annotations

from warmroute.gateway.attempts import counts
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.held import HeldAnswer
from warmroute.gateway.pd.verdict import Side
from warmroute.scheduling.worker import Worker


class Tried:
    """The workers that are not to be asked again, and how the last ones failed.

    `is_answered`: a worker has judged the request while its partner was reachable. `give_backs` counts how often
    engines have given the request back, `count` the attempts that failed, `reason` is why the last one did.
    """

    # As defaults of the class they cost nothing: most requests meet with nothing.
    prefill: tuple[Worker, ...] = ()
    decode: tuple[Worker, ...] = ()
    answer: HeldAnswer | None = None
    error: UpstreamError | None = None
    is_answered: bool = False
    give_backs: int = 0
    count: int = 0
    reason: str = ""

    def add(self, side: Side, worker: Worker) -> None:
        """Ask this worker no more."""
        if side == "prefill":
            self.prefill = (*self.prefill, worker)
        else:
            self.decode = (*self.decode, worker)

    def note(self, cause: UpstreamError | HeldAnswer, *, prefill_reachable: bool) -> None:
        """Remember what a leg failed with."""
        self.count += counts(cause)
        if isinstance(cause, HeldAnswer):
            self.answer = cause
            self.is_answered = self.is_answered or prefill_reachable
        else:
            self.error = cause

    def gave_back(self, decode: Worker, *, avoid: bool) -> None:
        """The engines gave the request back; with `avoid` this decode worker is not asked again."""
        self.give_backs += 1
        if avoid:
            self.add("decode", decode)
