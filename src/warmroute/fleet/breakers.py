"""The breakers of all members: verdicts go in, changes of routing come out. No socket; the clock is handed in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from warmroute.fleet.blame import Blame
from warmroute.fleet.breaker import BreakerState
from warmroute.fleet.member import Member
from warmroute.fleet.verdict import FAILURES, Verdict

Changed = Callable[[Member, str, int], None]

_LEVEL = {BreakerState.OPEN: logging.WARNING}
_SAID = {
    BreakerState.CLOSED: "is back: its breaker is closed",
    BreakerState.HALF_OPEN: "may be tried: its breaker is half open",
    BreakerState.TRYING: "is being tried with one request",
}


class Breakers:
    """Feeds the breakers. `changed` hears of every change of a state: member, what it does, level of the log line."""

    def __init__(self, members: Mapping[str, Member], clock: Callable[[], float], changed: Changed) -> None:
        self._members = members
        self._clock = clock
        self._changed = changed
        self._blame = Blame()

    def judge(self, member: Member, verdict: Verdict, request_id: bytes) -> None:
        """Take in how an attempt has ended."""
        now = self._clock()
        breaker = member.breaker
        if verdict is Verdict.OK:
            changed = breaker.succeeded(now, request_id)
        elif verdict in FAILURES and self._blame.falls_on(member.id, request_id, now):
            changed = breaker.failed(now, verdict.value, request_id)
        else:
            changed = breaker.undecided(now, request_id)
        self._tell(member, changed)

    def unreachable(self, member: Member, verdict: Verdict, request_id: bytes, *, is_news: bool) -> None:
        """A request found nobody there. All that do so in one outage count once."""
        now = self._clock()
        if is_news:
            changed = member.breaker.failed(now, verdict.value, request_id)
        else:
            changed = member.breaker.undecided(now, request_id)
        self._tell(member, changed)

    def attempt_started(self, member: Member, request_id: bytes) -> None:
        """A request is being sent to a suspect."""
        self._tell(member, member.breaker.attempt(self._clock(), request_id))

    def tick(self) -> None:
        """Let those that were open for long enough be tried."""
        now = self._clock()
        for member in self._members.values():
            if member.breaker.tick(now):
                self._tell(member, True)

    def reset(self, member: Member) -> None:
        """Another process runs there."""
        self._tell(member, member.breaker.reset(self._clock()))

    def _tell(self, member: Member, changed: bool) -> None:
        breaker = member.breaker
        member.worker.suspect = breaker.listens
        if not changed:
            return
        said = _SAID.get(breaker.state) or f"gets no requests, its breaker is open: {breaker.reason}"
        self._changed(member, said, _LEVEL.get(breaker.state, logging.INFO))
