"""The KV cache of a replayed engine: `simulation.kv_cache` for prompts of a thousand blocks.

It keeps the same rules (blocks known by chained ids, pinned while a request uses them, evicted least recently used
first and tail before head), but holds *runs* of blocks that were always used together, so that a request costs a step
for each run instead of one for each block. Sizes are in tokens: `ends[d]` is how many the first `d` blocks of a prompt
cover, so that blocks may differ in size. Ids must be chained: an id stands for the whole prefix up to its block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class Run:
    """Blocks `start` to `end` of a prompt, below `parent`. `pins` counts the requests that use all of them."""

    __slots__ = ("blocks", "children", "end", "ends", "newer", "older", "parent", "pins", "start")

    older: Run
    newer: Run

    def __init__(self, blocks: Sequence[int], ends: Sequence[int], start: int, end: int, parent: Run | None) -> None:
        self.blocks = blocks
        self.ends = ends
        self.start = start
        self.end = end
        self.parent = parent
        self.children = 0
        self.pins = 0

    @property
    def tokens(self) -> int:
        """What these blocks hold."""
        return self.ends[self.end] - self.ends[self.start]

    def shared_end(self, blocks: Sequence[int], depth: int) -> int:
        """The depth to which this run and `blocks[:depth]` agree, given that they agree on its first block."""
        own = self.blocks
        high = self.end if self.end < depth else depth
        if own is blocks or own[high - 1] == blocks[high - 1]:
            return high
        low, high = self.start + 1, high - 1
        while low < high:
            middle = (low + high + 1) // 2
            if own[middle - 1] == blocks[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low


def shared_depth(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading blocks two prompts share."""
    high = min(len(one), len(other))
    if not high or one[0] != other[0]:
        return 0
    low = 1
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


class Hold:
    """What one request occupies: the path down to `leaf`, `depth` blocks deep, and `private` tokens beside it."""

    __slots__ = ("depth", "leaf", "matched_tokens", "private")

    def __init__(self, leaf: Run | None, depth: int, matched_tokens: int, private: int) -> None:
        self.leaf = leaf
        self.depth = depth
        self.matched_tokens = matched_tokens
        self.private = private


class PathCache:
    """The blocks of one engine, `capacity` tokens of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.evicted_tokens = 0
        self.pinned = 0
        self.private = 0
        self.idle = 0
        self._runs: dict[int, Run] = {}
        # Idle runs, least recently used first, as a ring that this sentinel closes.
        self._ring = ring = Run((), (0,), 0, 0, None)
        ring.older = ring.newer = ring

    def match(self, blocks: Sequence[int], ends: Sequence[int]) -> int:
        """Tokens of the longest cached prefix. Changes nothing."""
        return ends[self._walk(blocks)[1]]

    def acquire(self, blocks: Sequence[int], ends: Sequence[int], total: int) -> Hold | None:
        """Pin what is cached of a prompt and take room up to `total` tokens; None when that is not to be had."""
        leaf, depth = self._walk(blocks)
        matched = ends[depth]
        revived = 0
        run, bottom = leaf, depth
        while run is not None and not run.pins:
            revived += ends[bottom] - ends[run.start]
            bottom = run.start
            run = run.parent
        if self.pinned + self.private + revived + total - matched > self.capacity:
            return None
        if leaf is not None and depth < leaf.end:
            leaf = self._cut(leaf, depth)
        run = leaf
        while run is not None:
            self._pin(run)
            run = run.parent
        hold = Hold(leaf, depth, matched, total - matched)
        self.private += hold.private
        self._evict()
        return hold

    def commit(self, hold: Hold, blocks: Sequence[int], ends: Sequence[int], depth: int) -> None:
        """Publish computed blocks: `blocks[:depth]` begin with what is held, the rest comes out of the private room."""
        leaf, at = hold.leaf, hold.depth
        if at >= depth:
            return
        tokens = ends[depth] - ends[at]
        hold.private -= tokens
        self.private -= tokens
        while at < depth:
            run = self._runs.get(blocks[at])
            if run is None:
                leaf = self._grow(leaf, blocks, ends, at, depth)
                break
            end = run.shared_end(blocks, depth)
            leaf = run if end == run.end else self._cut(run, end)
            self._pin(leaf)
            at = end
        hold.leaf, hold.depth = leaf, depth

    def release(self, hold: Hold) -> None:
        """Give everything back; published blocks stay until they are evicted."""
        self.private -= hold.private
        hold.private = 0
        run, hold.leaf = hold.leaf, None
        ring = self._ring
        while run is not None:
            run.pins -= 1
            if not run.pins:
                tokens = run.tokens
                self.pinned -= tokens
                self.idle += tokens
                last = ring.older
                run.older, run.newer = last, ring
                last.newer = ring.older = run
            run = run.parent

    def _walk(self, blocks: Sequence[int]) -> tuple[Run | None, int]:
        """The deepest run that shares a block with the prompt, and the depth to which it does."""
        find = self._runs.get
        last: Run | None = None
        at, depth = 0, len(blocks)
        while at < depth:
            run = find(blocks[at])
            if run is None:
                break
            last = run
            at = run.shared_end(blocks, depth)
            if at < run.end:
                break
        return last, at

    def _grow(self, leaf: Run | None, blocks: Sequence[int], ends: Sequence[int], at: int, depth: int) -> Run:
        """Add the blocks from `at` to `depth` below `leaf`, pinned once."""
        self.pinned += ends[depth] - ends[at]
        if leaf is not None and leaf.pins == 1 and not leaf.children:
            # Nobody else uses it: a conversation stays one run, however many turns it has.
            leaf.blocks, leaf.ends, leaf.end = blocks, ends, depth
            return leaf
        run = self._runs[blocks[at]] = Run(blocks, ends, at, depth, leaf)
        run.pins = 1
        if leaf is not None:
            leaf.children += 1
        return run

    def _pin(self, run: Run) -> None:
        if not run.pins:
            tokens = run.tokens
            self.idle -= tokens
            self.pinned += tokens
            run.older.newer, run.newer.older = run.newer, run.older
            del run.older, run.newer
        run.pins += 1

    def _cut(self, run: Run, depth: int) -> Run:
        """Cut a run at a depth inside it and return the new upper part; whoever uses it uses both parts."""
        upper = Run(run.blocks, run.ends, run.start, depth, run.parent)
        upper.children = 1
        upper.pins = run.pins
        self._runs[run.blocks[run.start]] = upper
        self._runs[run.blocks[depth]] = run
        run.start = depth
        run.parent = upper
        if not run.pins:
            newer = run.newer
            upper.older, upper.newer = run, newer
            run.newer = newer.older = upper
        return upper

    def _evict(self) -> None:
        while (excess := self.pinned + self.private + self.idle - self.capacity) > 0:
            run = self._ring.newer
            ends, start = run.ends, run.start
            kept = bisect_right(ends, ends[run.end] - excess, start, run.end) - 1
            lost = ends[run.end] - ends[max(kept, start)]
            self.idle -= lost
            self.evicted_tokens += lost
            if kept > start:
                run.end = kept
                continue
            run.older.newer, run.newer.older = run.newer, run.older
            del run.older, run.newer
            del self._runs[run.blocks[start]]
            if run.parent is not None:
                run.parent.children -= 1
