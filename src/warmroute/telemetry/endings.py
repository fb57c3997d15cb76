"""Requests that are over: put down first, and counted later for all who count them.

Counting many in one go takes a fraction of the time of counting them one by one, and what several want to know is put
down and taken apart only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from warmroute.scheduling.worker import Role, Worker

Ending = tuple[bytes, int, str, str, Role, Worker | None, Worker | None, float, float]
"""Request target, status, outcome (one of `metrics.OUTCOMES`); policy, role and worker (None: none was chosen) of the
last choice, the prefill worker of a pair; seconds from the complete request to its end, and until it was on the way to
that worker.
"""

Kind = tuple[bytes, int, str, str, Role, Worker | None, Worker | None]
"""An `Ending` without its times."""


class Batch(NamedTuple):
    """Some requests that are over: how many of each kind, and columns with a value for each request."""

    counts: Counter[Kind]
    targets: tuple[bytes, ...]
    outcomes: tuple[str, ...]
    workers: tuple[Worker | None, ...]
    seconds: tuple[float, ...]
    added: tuple[float, ...]


class Endings:
    """A list of requests that are over, and those who count them."""

    __slots__ = ("_list", "_readers", "add")

    def __init__(self) -> None:
        self._list: list[Ending] = []
        self._readers: list[Callable[[Batch], None]] = []
        self.add = self._list.append
        """Put down that a request is over. Somebody has to call `settle` now and then, else the list grows."""

    def read_by(self, reader: Callable[[Batch], None]) -> None:
        """Have `reader` count whatever is put down from now on."""
        self._readers.append(reader)

    def settle(self) -> None:
        """Count what is in the list."""
        if not self._list:
            return
        targets, statuses, outcomes, policies, roles, workers, prefills, seconds, added = zip(*self._list, strict=True)
        self._list.clear()
        counts = Counter(zip(targets, statuses, outcomes, policies, roles, workers, prefills, strict=True))
        batch = Batch(counts, targets, outcomes, workers, seconds, added)
        for reader in self._readers:
            reader(batch)
