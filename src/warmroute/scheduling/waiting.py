"""The order in which requests wait for a place on a worker. Decisions only; the time is handed in.

Requests wait in lines, one for each key (the model that is asked for), since a place on a worker of one model is of no
use for another. Within and between lines the lowest rank is served first.

A rank is a moment: that of arrival, moved back by a step for each point of priority. So who waits ages by waiting:
a request is overtaken by one with a priority of n points more only if that arrived less than n steps later. With
priorities of at most MAX_PRIORITY either way, and a step of a sixtieth of the timeout, whoever has waited for two
thirds of the timeout is overtaken by nobody who comes later: nothing starves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

MAX_PRIORITY = 20
_STEPS_PER_TIMEOUT = 60
_PACE_WEIGHT = 0.1

W = TypeVar("W")


class Place(Generic[W]):
    """Where somebody stands. `expires` is when that is over, on the clock of the caller."""

    __slots__ = ("expires", "key", "rank", "serial", "who")

    def __init__(self, who: W, key: Hashable, rank: float, serial: int, expires: float) -> None:
        self.who = who
        self.key = key
        self.rank = rank
        self.serial = serial
        self.expires = expires


class WaitingLine(Generic[W]):
    """All who wait. At most `limit` do, each for `timeout` seconds."""

    def __init__(self, limit: int, timeout: float) -> None:
        self._limit = limit
        self._timeout = timeout
        self._step = timeout / _STEPS_PER_TIMEOUT
        self._serials = count()
        self._lines: dict[Hashable, list[tuple[float, int, Place[W]]]] = {}
        self._by_age: dict[int, Place[W]] = {}
        self._pace = 0.0
        self._last_served: float | None = None

    def __len__(self) -> int:
        return len(self._by_age)

    def add(
        self, who: W, key: Hashable, priority: int, arrived: float, now: float, *, beyond_limit: bool = False
    ) -> Place[W] | None:
        """Let somebody wait; None if too many do already, unless they may go `beyond_limit`.

        `arrived` counts for the rank, `now` for the timeout.
        """
        if len(self._by_age) >= self._limit and not beyond_limit:
            return None
        priority = min(max(priority, -MAX_PRIORITY), MAX_PRIORITY)
        place = Place(who, key, arrived - priority * self._step, next(self._serials), now + self._timeout)
        self._by_age[place.serial] = place
        insort(self._lines.setdefault(key, []), (place.rank, place.serial, place))
        return place

    def has(self, key: Hashable) -> bool:
        """Whether anybody stands in this line."""
        return key in self._lines

    def remove(self, place: Place[W]) -> bool:
        """Take somebody out, for whatever reason; whether they were waiting still."""
        if self._by_age.pop(place.serial, None) is None:
            return False
        line = self._lines[place.key]
        del line[bisect_left(line, (place.rank, place.serial))]
        if not line:
            del self._lines[place.key]
        return True

    def first(self, may_go: Callable[[W], bool]) -> Place[W] | None:
        """Who is next: of those that stand at the head of a line and may go, the one with the lowest rank."""
        for _, _, place in sorted(line[0] for line in self._lines.values()):
            if may_go(place.who):
                return place
        return None

    def expired(self, now: float) -> list[Place[W]]:
        """Whose time is over; they are to be removed."""
        found = []
        for place in self._by_age.values():  # in the order of their coming, which is that of their ends
            if place.expires > now:
                break
            found.append(place)
        return found

    @property
    def next_end(self) -> float | None:
        """When the time of somebody is over next."""
        return next((place.expires for place in self._by_age.values()), None)

    def served(self, now: float) -> None:
        """Somebody got a place: by this, `seconds_to_clear` learns the pace."""
        if self._last_served is not None:
            self._pace += _PACE_WEIGHT * (now - self._last_served - self._pace)
        self._last_served = now

    def seconds_to_clear(self) -> float:
        """How long it would take to serve all who wait, at the pace of late."""
        return self._pace * len(self._by_age)
