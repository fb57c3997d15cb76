"""The KV cache of a simulated engine: a fixed number of blocks, shared by prefix, evicted least recently used first.

A block is known by its chained hash, so it stands for a whole prefix. Three things can occupy a block of capacity:

- a *pinned* cached block, used by at least one running request;
- an *idle* cached block, used by none: it may be evicted;
- a *private* block of a running request: still being computed, or never full.

Eviction is tail first: a request lets go of its last block before its first one, so in the order of the idle blocks a
block always precedes the block it follows. A prefix can therefore lose its end, never its beginning. vLLM keeps its
free queue in the same order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class KvCache:
    """The blocks of one engine, `block_size` tokens each; all sizes but `capacity_tokens` are in blocks."""

    def __init__(self, capacity_tokens: int, block_size: int) -> None:
        self.block_size = block_size
        self.capacity = capacity_tokens // block_size
        self.evictions = 0
        self._pins: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    @property
    def used(self) -> int:
        """Blocks that running requests occupy."""
        return len(self._pins) + self._private

    @property
    def idle(self) -> int:
        """Blocks that are cached, but used by no running request."""
        return len(self._idle)

    def __contains__(self, block: int) -> bool:
        return block in self._pins or block in self._idle

    def match(self, blocks: Sequence[int]) -> int:
        """How many of the leading `blocks` are cached. Changes nothing, not even the order of eviction."""
        for count, block in enumerate(blocks):
            if block not in self:
                return count
        return len(blocks)

    def acquire(self, prefix: Sequence[int], total: int) -> Hold | None:
        """Pin what is cached of `prefix`, take private blocks up to `total`; None when so many are not to be had."""
        matched = list(prefix[: self.match(prefix)])
        private = total - len(matched)
        revived = sum(block in self._idle for block in matched)
        if self.used + revived + private > self.capacity:
            return None
        for block in matched:
            self._pin(block)
        self._private += private
        self._evict()
        return Hold(self, matched, private)

    def _pin(self, block: int) -> None:
        if block in self._idle:
            del self._idle[block]
        self._pins[block] = self._pins.get(block, 0) + 1

    def _unpin(self, block: int) -> None:
        left = self._pins[block] - 1
        if left:
            self._pins[block] = left
        else:
            del self._pins[block]
            self._idle[block] = None

    def _evict(self) -> None:
        while self.used + len(self._idle) > self.capacity:
            self._idle.popitem(last=False)
            self.evictions += 1


class Hold:
    """What one running request occupies. `KvCache.acquire` makes it, `release` gives all of it back, once."""

    __slots__ = ("_blocks", "_cache", "_private", "matched")

    def __init__(self, cache: KvCache, blocks: list[int], private: int) -> None:
        self.matched = len(blocks)
        self._cache = cache
        self._blocks = blocks
        self._private = private

    def commit(self, blocks: Sequence[int]) -> None:
        """Publish computed blocks, which follow those already held; each turns a private block into a shared one.

        A block that another request has published meanwhile is shared, and the private copy becomes free.
        Raises ValueError when more blocks are published than are held.
        """
        if len(blocks) > self._private:
            raise ValueError(f"{len(blocks)} blocks to publish, {self._private} held")
        for block in blocks:
            self._cache._pin(block)
        self._blocks.extend(blocks)
        self._private -= len(blocks)
        self._cache._private -= len(blocks)

    def release(self) -> None:
        """Give everything back; published blocks stay cached until they are evicted."""
        self._cache._private -= self._private
        self._private = 0
        for block in reversed(self._blocks):
            self._cache._unpin(block)
        self._blocks = []
