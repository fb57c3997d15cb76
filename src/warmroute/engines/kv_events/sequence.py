"""The order of a publisher's messages: numbers that grow by one, and what it means when they do not.

A number that comes again or goes back is that of a new process, unless a replay has brought it already. A publisher
keeps its last batches only, so what a replay begins with may not be what was asked for.
"""

from __future__ import annotations

from enum import Enum, auto


class Step(Enum):
    """What a message is, by its number."""

    NEXT = auto()
    """The one that was waited for."""
    KNOWN = auto()
    """A replay has brought it already."""
    GAP = auto()
    """Others are missing before it."""
    RESTART = auto()
    """It is of another process than those before."""


class Sequence:
    """Follows one publisher. `expected` is the number that comes next, None before the first message."""

    def __init__(self) -> None:
        self.expected: int | None = None
        self._last_live = -1

    def live(self, number: int) -> Step:
        """A published message has come. NEXT counts it as taken in."""
        went_back = number <= self._last_live
        self._last_live = number
        if went_back:
            return Step.RESTART
        if self.expected is None:
            return self._take(number) if number == 0 else Step.GAP
        if number < self.expected:
            return Step.KNOWN
        return self._take(number) if number == self.expected else Step.GAP

    def replayed(self, number: int) -> Step:
        """A replayed message has come: NEXT, KNOWN, or GAP if the publisher no longer has what is before it."""
        if self.expected is None or number == self.expected:
            return self._take(number)
        return Step.KNOWN if number < self.expected else Step.GAP

    def skip_to(self, number: int) -> None:
        """What is missing before this message will not come: it is the next one."""
        self.expected = number

    def begin(self) -> None:
        """Nothing is known: the publisher is another process, or all is to be told again."""
        self.expected = None

    def _take(self, number: int) -> Step:
        self.expected = number + 1
        return Step.NEXT
