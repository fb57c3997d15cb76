"""The parts of the prefix index: nodes of the trie, a worker's holds on them, and the shelf that orders the holds.

A node is a run of block hashes that nobody has diverged inside of (path compression). A hold says that one worker has
one node. All holds of a worker stand on its shelf, least recently used first. `tests/scheduling` keeps these true:

- A worker that holds a node holds all its ancestors.
- On a shelf a hold stands before the holds of its node's ancestors. A path is touched from its leaf to its root, so
  the oldest hold is always a leaf for that worker, and evicting from the old end is evicting tail first.
- A node that nobody holds does not exist. With the first rule this means that a node goes after all nodes below it,
  so nodes need to know their parents only.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from math import inf

from warmroute.scheduling.worker import Worker


class Node:
    """A run of blocks: `hashes` of the blocks from depth `start` to `end`, below `parent`.

    They are worth `tokens`; with what lies above them, `total` tokens.
    """

    __slots__ = ("end", "hashes", "holds", "parent", "start", "tokens", "total")

    def __init__(self, hashes: array[int], start: int, end: int, total: int, parent: Node | None) -> None:
        self.hashes = hashes
        self.start = start
        self.end = end
        self.total = total
        self.tokens = total if parent is None else total - parent.total
        self.parent = parent
        self.holds: dict[Worker, Hold] = {}

    def shared_end(self, fingerprint: Sequence[int], depth: int) -> int:
        """The depth to which this node and `fingerprint[:depth]` agree, given that they agree on its first block.

        The hashes are chained, so an equal hash means that everything before it is equal: the last shared
        position answers for a whole node, and bisection finds where two prompts part.
        """
        hashes, start = self.hashes, self.start
        high = self.end if self.end < depth else depth
        if hashes[high - start - 1] == fingerprint[high - 1]:
            return high
        low, high = start + 1, high - 1
        while low < high:
            middle = (low + high + 1) // 2
            if hashes[middle - start - 1] == fingerprint[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low


Claimants = tuple[int, ...] | None


class Hold:
    """One worker has one node, since `touched` at the latest.

    `claimants` is None once a worker has shown that it has the blocks. Until then it names the requests that were
    sent there and would bring them; when the last of them fails, the hold goes away. That one of them has succeeded
    is known to `PrefixTrie.pending`, and written down here only when the hold is used next.
    """

    __slots__ = ("claimants", "newer", "node", "older", "shelf", "touched")
    __deletable__ = ("newer", "older")  # asked for by mypyc

    older: Hold
    newer: Hold

    def __init__(self, node: Node, shelf: Shelf, touched: float, claimants: Claimants, older: Hold | None) -> None:
        """Put it on the shelf right after (as slightly more recent than) `older`; None: it is a ring of its own."""
        self.node = node
        self.shelf = shelf
        self.touched = touched
        self.claimants = claimants
        if older is None:
            self.older = self.newer = self
        else:
            newer = older.newer
            self.older, self.newer = older, newer
            older.newer = newer.older = self


class Shelf:
    """All holds of one worker in the order of their last use, and how many tokens they cover.

    `misses` counts the answers in a row that have shown less in the worker's cache than stands here.
    """

    __slots__ = ("ends", "misses", "tokens", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.tokens = 0
        self.misses = 0
        # One sentinel closes the list to a ring, so that linking and unlinking know no special case. It never expires.
        # Whoever is in a hurry reads the oldest hold from here: a property costs more than what it is asked for.
        self.ends = Hold(Node(array("Q"), 0, 0, 0, None), self, inf, None, None)

    @property
    def is_empty(self) -> bool:
        """Whether the worker holds nothing."""
        return self.ends.newer is self.ends

    @property
    def oldest(self) -> Hold:
        """The least recently used hold; of an empty shelf, no real one."""
        return self.ends.newer

    def refresh(self, hold: Hold, now: float) -> None:
        """Move a hold to the recent end."""
        hold.touched = now
        ends = self.ends
        older, newer = hold.older, hold.newer
        if newer is ends:
            return
        older.newer, newer.older = newer, older
        last = ends.older
        hold.older, hold.newer = last, ends
        last.newer = ends.older = hold

    def remove(self, hold: Hold) -> None:
        """Take a hold off the shelf."""
        hold.older.newer, hold.newer.older = hold.newer, hold.older
        # Without its links the hold is in no reference cycle, and is freed at once.
        del hold.older, hold.newer


# What the objects above cost, in bytes, asked of this interpreter. The growth of dicts and sets is averaged; a test
# compares the sum with what the allocator says.
_GC_HEADER = 16
_DICT_ENTRY = 64
_FLOAT = sys.getsizeof(0.5)
_HASH = sys.getsizeof(2**63)

BLOCK_BYTES = array("Q").itemsize


def _measure() -> tuple[int, int, int]:
    worker = Worker("", "")
    node = Node(array("Q"), 0, 0, 0, None)
    hold = Hold(node, Shelf(worker), 0.0, (0,), None)
    node.holds[worker] = hold
    node_bytes = sys.getsizeof(node) + sys.getsizeof(node.hashes) + sys.getsizeof(node.holds) + 2 * _GC_HEADER
    # Its first hash as the key that finds it, its two numbers of tokens, and its entry in the index.
    node_bytes += 3 * _HASH + _DICT_ENTRY
    hold_bytes = sys.getsizeof(hold) + _GC_HEADER + _FLOAT + _DICT_ENTRY // 2
    claim_bytes = sys.getsizeof(hold.claimants) + _GC_HEADER + _HASH
    return node_bytes, hold_bytes, claim_bytes


NODE_BYTES, HOLD_BYTES, _CLAIM_BYTES = _measure()
# Every hold is taken to have one claimant: most have had one, and keep it until they are used again.
HOLD_BYTES += _CLAIM_BYTES
# Each claimant after the first costs its place in the tuple and a number.
MORE_CLAIM_BYTES = BLOCK_BYTES + _HASH
# A shelf with its sentinel and the entry that finds it.
SHELF_BYTES = NODE_BYTES + HOLD_BYTES + _DICT_ENTRY


def claim_bytes(claimants: Claimants) -> int:
    """What the claimants of one hold cost beyond those of HOLD_BYTES."""
    return MORE_CLAIM_BYTES * (len(claimants) - 1) if claimants else 0
