"""Stretches of blocks that prompts were matched with before, so that a conversation that grew is not walked anew.

A stretch is a fixed number of consecutive blocks, counted from the first block of a prompt. What is remembered of it is
who held how much of it; it is forgotten when any of its blocks comes or goes anywhere, since a cache may lose any of
them, whatever it still holds behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

Steps = Sequence[tuple[int, int]]
"""Of a run of blocks: which publishers (as bits) hold all of them so far, and from which block on (0: the first). They
become fewer and fewer, until none is left."""


def steps_of(owners: Sequence[int | None]) -> Steps:
    """From who holds each block of a run, None if nobody does."""
    first = owners[0]
    # Mostly all have the same owners, and comparing them takes no bytecode.
    if owners.count(first) == len(owners):
        return ((0, first or 0),)
    steps: list[tuple[int, int]] = []
    holders = last = -1
    for offset, owner in enumerate(owners):
        if owner != last:
            last = owner or 0
            if holders & ~last:
                holders &= last
                steps.append((offset, holders))
                if not holders:
                    break
    return tuple(steps)


class Stretch:
    """Consecutive blocks of a prompt, and who holds how much of them."""

    __slots__ = ("keys", "steps")

    def __init__(self, keys: Sequence[int], steps: Steps) -> None:
        self.keys = keys
        self.steps = steps


class Stretches:
    """Of at most `most_blocks` blocks; the stretches that were remembered first go first."""

    __slots__ = ("_most", "_order", "by_key", "length")

    def __init__(self, length: int, most_blocks: int) -> None:
        self.length = length
        self.by_key: dict[int, Stretch] = {}
        """The stretch that each block belongs to. Looked up directly where a call would cost too much."""
        self._most = most_blocks
        self._order: dict[Stretch, None] = {}

    def remember(self, keys: Sequence[int], steps: Steps) -> None:
        """Who holds these `length` blocks. Of stretches that share a block only the first is remembered."""
        if self.length > self._most or keys[0] in self.by_key:
            return
        stretch = Stretch(keys, steps)
        belong = dict.fromkeys(keys, stretch)
        # That they share another block, or have one twice, is chance: keys have 64 bits of no cryptographic hash.
        if len(belong) < self.length or not belong.keys().isdisjoint(self.by_key):
            return
        if len(self.by_key) + self.length > self._most:
            self.forget(next(iter(self._order)))
        self.by_key.update(belong)
        self._order[stretch] = None

    def forget(self, stretch: Stretch) -> None:
        """Its blocks are to be looked up one by one again."""
        del self._order[stretch]
        for key in stretch.keys:
            del self.by_key[key]
