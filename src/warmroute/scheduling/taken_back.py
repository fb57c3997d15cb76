"""Which blocks a publisher took back lately: what is evicted while a prompt waits was no lie of the events."""

from __future__ import annotations

MOST_KEYS = 1 << 14
"""Keys that are remembered: about 2 MB for each publisher. What is older counts as never taken back."""


class TakenBack:
    """The last keys that were taken back, oldest first."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[int, None] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._keys

    def add(self, key: int) -> None:
        """Remember one more; the oldest is forgotten for it."""
        keys = self._keys
        keys.pop(key, None)
        keys[key] = None
        if len(keys) > MOST_KEYS:
            del keys[next(iter(keys))]
