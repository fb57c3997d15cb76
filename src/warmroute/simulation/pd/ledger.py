"""What a prefill engine holds for decode engines. Pure: the present is handed in, nothing waits.

Every handover has a key, on which both engines agree by the handshake, and a life:

    prefilling --offer--> held --take--> transferring --deliver--> sent
                          held <--interrupt-- transferring
                          held --expire--> expired
    prefilling, held, transferring --withdraw--> withdrawn

A transfer that is under way does not expire.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from warmroute.simulation.pd.counts import KvCounts

_REMEMBERED = 100_000
"""Ended handovers of which the ledger still knows how they ended."""


class State(Enum):
    """Of one handover; the value is how it is told."""

    PREFILLING = "still being prefilled"
    HELD = "held"
    TRANSFERRING = "on its way to a decode engine"
    SENT = "already fetched"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


ENDED = frozenset({State.SENT, State.EXPIRED, State.WITHDRAWN})


class KeyTaken(Exception):  # noqa: N818 - a refusal, no error of ours
    """The key is in use, or was used before and may be used once only."""


class NotHeld(Exception):  # noqa: N818 - likewise
    """There is no KV cache to fetch under this key; the message says why."""


@dataclass(frozen=True, slots=True)
class Kv:
    """The KV cache of a prompt: `content` is a hash of its tokens, `seal` what the decode engine must know as well."""

    content: int
    tokens: int
    seal: str = ""


@dataclass(slots=True)
class _Handover:
    state: State = State.PREFILLING
    kv: Kv | None = None
    let_go: Callable[[], None] = lambda: None
    expires: float = math.inf


class KvLedger:
    """The handovers of one prefill engine. With `single_use` a key is refused for good once it was used."""

    def __init__(self, lease_seconds: float, counts: KvCounts, *, single_use: bool) -> None:
        self.single_use = single_use
        self._lease_seconds = lease_seconds
        self._counts = counts
        self._open: dict[str, _Handover] = {}
        self._ended: OrderedDict[str, State] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def next_expiry(self) -> float:
        """When the next handover expires; infinity when none will."""
        return min((one.expires for one in self._open.values() if one.state is State.HELD), default=math.inf)

    def state(self, key: str) -> State | None:
        """None for a key that was never used, or so long ago that it is forgotten."""
        handover = self._open.get(key)
        return self._ended.get(key) if handover is None else handover.state

    def announce(self, key: str) -> None:
        """The prefill for this key begins. Raises KeyTaken."""
        if key in self._open or (self.single_use and key in self._ended):
            raise KeyTaken(key)
        self._open[key] = _Handover()

    def offer(self, key: str, kv: Kv, let_go: Callable[[], None], now: float) -> None:
        """The prefill has ended; `let_go` will be called once, when nobody needs its KV cache any more."""
        handover = self._open[key]
        handover.state, handover.kv, handover.let_go = State.HELD, kv, let_go
        handover.expires = now + self._lease_seconds
        self._counts.offered += 1

    def take(self, key: str, seal: str) -> Kv:
        """A decode engine begins to fetch. Raises NotHeld."""
        handover = self._open.get(key)
        if handover is None or handover.kv is None or handover.state is not State.HELD:
            state = self.state(key)
            raise NotHeld(f"{key!r} is {'unknown' if state is None else state.value}")
        if handover.kv.seal != seal:
            raise NotHeld(f"{key!r} is held, but the decode engine was told other parameters")
        handover.state = State.TRANSFERRING
        return handover.kv

    def interrupt(self, key: str) -> None:
        """The decode engine left before the end; another may come until the lease is over."""
        handover = self._open.get(key)
        if handover is not None and handover.state is State.TRANSFERRING:
            handover.state = State.HELD

    def deliver(self, key: str) -> None:
        """The transfer has ended. Raises NotHeld when it was withdrawn meanwhile."""
        if self.state(key) is not State.TRANSFERRING:
            raise NotHeld(f"{key!r} was withdrawn during its transfer")
        self._counts.sent += 1
        self._end(key, State.SENT)

    def withdraw(self, key: str) -> None:
        """Its request ended early; nothing happens to a handover that has ended."""
        if key in self._open:
            self._counts.withdrawn += 1
            self._end(key, State.WITHDRAWN)

    def expire(self, now: float) -> list[str]:
        """End what nobody has fetched by `now`; the keys."""
        due = [key for key, one in self._open.items() if one.state is State.HELD and one.expires <= now]
        for key in due:
            self._counts.expired += 1
            self._end(key, State.EXPIRED)
        return due

    def _end(self, key: str, state: State) -> None:
        handover = self._open.pop(key)
        self._ended[key] = state
        self._ended.move_to_end(key)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        handover.let_go()
