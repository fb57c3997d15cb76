"""What was made of a prompt, kept for prompts that begin like it: found by the deepest hash of their fingerprints.

Of prompts that share a hash the newest is found. When newer ones have taken over all hashes that lead to a value, as
each turn of a conversation does from the one before, it goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from operator import eq
from typing import Generic, TypeVar

_T = TypeVar("_T")
_ENTRY_BYTES = 1000


class _Entry(Generic[_T]):
    """`reachable` counts the hashes that lead here."""

    __slots__ = ("hashes", "reachable", "size", "value")

    def __init__(self, hashes: Sequence[int], value: _T, size: int) -> None:
        self.hashes = hashes
        self.value = value
        self.size = size
        self.reachable = 0


class PrefixStore(Generic[_T]):
    """Bounded by `max_bytes`: what was used least recently goes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._entries: OrderedDict[int, _Entry[_T]] = OrderedDict()
        self._by_hash: dict[int, int] = {}
        self._next = 0

    def find(self, hashes: Sequence[int]) -> tuple[int, _T] | None:
        """How many hashes are shared with a prompt that is kept, and what was made of that; None if none are."""
        find = self._by_hash.get
        for depth in range(len(hashes), 0, -1):
            number = find(hashes[depth - 1])
            if number is not None:
                self._entries.move_to_end(number)
                return depth, self._entries[number].value
        return None

    def put(self, hashes: Sequence[int], value: _T, size: int) -> None:
        """Keep what was made of a prompt, `size` bytes; nothing without hashes, or what is too large."""
        size += _ENTRY_BYTES
        if not hashes or size > self.max_bytes:
            return
        number, start = self._outgrown(hashes)
        if start:
            self._entries.move_to_end(number)
            entry = self._entries[number]
            self.size_bytes -= entry.size
            entry.hashes, entry.value, entry.size = hashes, value, size
        else:
            number = self._next = self._next + 1
            entry = self._entries[number] = _Entry(hashes, value, size)
        self.size_bytes += size
        for one in islice(hashes, start, None):
            before = self._by_hash.get(one)
            if before == number:
                continue
            self._by_hash[one] = number
            entry.reachable += 1
            if before is not None:
                self._lose_hash(before)
        while self.size_bytes > self.max_bytes:
            self._forget(next(iter(self._entries)))

    def _outgrown(self, hashes: Sequence[int]) -> tuple[int, int]:
        """Which entry these hashes go on from, if all of its own lead to it and to no other, and how many those are."""
        find = self._by_hash.get
        for depth in range(len(hashes), 0, -1):
            number = find(hashes[depth - 1])
            if number is not None:
                entry = self._entries[number]
                whole = depth == len(entry.hashes) == entry.reachable
                # In full: what another one shares by chance is as good as nothing.
                return (number, depth) if whole and all(map(eq, entry.hashes, hashes)) else (0, 0)
        return 0, 0

    def _lose_hash(self, number: int) -> None:
        entry = self._entries[number]
        entry.reachable -= 1
        if not entry.reachable:
            self._forget(number)

    def _forget(self, number: int) -> None:
        entry = self._entries.pop(number)
        self.size_bytes -= entry.size
        for one in entry.hashes:
            if self._by_hash.get(one) == number:
                del self._by_hash[one]
