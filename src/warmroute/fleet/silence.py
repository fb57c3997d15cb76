"""Workers that take requests and begin no answer, while others of their role do. No socket, no clock.

Probes may pass all the while: an engine can be stuck behind a server that is well. Long prompts are legal, and an
answer that is no stream begins when it is complete, so silence alone proves nothing, and nothing that waits is taken
away. After a short silence the worker is probed at once; after one that is long, also measured by how long answers
take here, it gets no new requests until it has begun one, or nobody waits there any more.

A prefill worker has begun when its own answer comes, or that of its decode worker, which could not without it.
A decode worker also waits for prompts that are computed elsewhere, so that a single request there proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warmroute.fleet.member import Member
from warmroute.scheduling.worker import Worker

Waiting = Callable[[Worker], int]
"""How many requests a worker was sent that it has not begun to answer."""


@dataclass(frozen=True, slots=True)
class SilenceRules:
    """Seconds of silence, and answers that others have begun meanwhile, that make a worker suspicious, or stuck.

    To be stuck takes `times` the mean time to first byte of all workers of the role as well.
    """

    suspicious: float = 2.0
    stuck: float = 20.0
    times: float = 4.0
    answers: int = 20


@dataclass(slots=True)
class _Quiet:
    """A worker with waiting requests: `since` when, and what it and all had begun to answer then."""

    since: float
    own: int
    all: int
    is_told: bool = False


@dataclass(slots=True)
class Look:
    """What one look has found: who is to be probed now, and whose state has changed."""

    suspicious: list[Member]
    changed: list[Member]


class Silences:
    """Remembers since when each worker has been silent. `look` is to be called about once a second, for one role.

    A worker is silent while at least so many requests wait there.
    """

    def __init__(self, rules: SilenceRules, least_waiting: int = 1) -> None:
        self._rules = rules
        self._least_waiting = least_waiting
        self._quiet: dict[str, _Quiet] = {}

    def look(self, members: Iterable[Member], waiting: Waiting, now: float) -> Look:
        """Compare with the last look; sets `stuck_since` of members that are, or are no longer, stuck."""
        members = list(members)
        begun = sum(member.worker.tally.first_tokens for member in members)
        usual = sum(member.worker.tally.ttft_seconds for member in members) / max(1, begun)
        long = max(self._rules.stuck, self._rules.times * usual)
        found = Look([], [])
        quiet = {}
        for member in members:
            state = quiet[member.id] = self._state_of(member, begun, waiting, now)
            silence = now - state.since
            others = begun - state.all >= self._rules.answers
            if others and silence >= self._rules.suspicious and not state.is_told:
                state.is_told = True
                found.suspicious.append(member)
            is_stuck = others and silence >= long
            if is_stuck is not (member.stuck_since is not None):
                member.stuck_since = now if is_stuck else None
                found.changed.append(member)
        self._quiet = quiet
        return found

    def _state_of(self, member: Member, begun: int, waiting: Waiting, now: float) -> _Quiet:
        own = member.worker.tally.first_tokens
        state = self._quiet.get(member.id)
        if state is None or own != state.own or waiting(member.worker) < self._least_waiting:
            return _Quiet(now, own, begun)
        return state
