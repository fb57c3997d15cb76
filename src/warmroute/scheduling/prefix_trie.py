"""The trie under the prefix index: finds paths, cuts nodes, places and drops holds, and keeps the books.

It knows no time and no bounds. Hashes are chained, so the first hash of a node identifies the whole path to it: one
dict finds every node, and a walk costs one look-up per node, not per block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import inf
from typing import Protocol

from warmroute.scheduling.prefix_nodes import (
    BLOCK_BYTES,
    HOLD_BYTES,
    NODE_BYTES,
    SHELF_BYTES,
    Claimants,
    Hold,
    Node,
    Shelf,
    claim_bytes,
)
from warmroute.scheduling.worker import Worker


class BlockTokens(Protocol):
    """What the index needs of a ladder."""

    def tokens_at(self, depth: int, /) -> int:
        """Tokens that the first `depth` blocks cover."""
        ...


class PrefixTrie:
    """Nodes by first hash, shelves by worker, and the bytes of all of it. An empty shelf does not exist."""

    def __init__(self, ladder: BlockTokens) -> None:
        self.tokens_at = ladder.tokens_at
        self.nodes: dict[int, Node] = {}
        self.shelves: dict[Worker, Shelf] = {}
        self.size_bytes = 0
        self.pending: set[int] = set()
        """The claimants of which nobody knows yet how it went."""
        self.walked: Sequence[int] | None = None
        """The prompt that was looked up or claimed last, if it shares all of `walked_to` and what is above that."""
        self.walked_to: Node | None = None

    def path(self, fingerprint: Sequence[int]) -> Iterator[Node]:
        """The nodes that share at least one block with the prompt, from the root down."""
        find = self.nodes.get
        parent: Node | None = None
        depth, length = 0, len(fingerprint)
        while depth < length:
            node = find(fingerprint[depth])
            # A node of another parent or depth: a 64-bit hash has come up twice, and this one is not on our path.
            if node is None or node.parent is not parent or node.start != depth:
                return
            yield node
            parent = node
            depth = node.end

    def grow(self, fingerprint: Sequence[int], depth: int) -> Node | None:
        """The node that ends `fingerprint[:depth]`, made or cut out where needed; its parents are what lies above.

        All of them must get a hold before anything else happens: a node without holds is never found by eviction.
        Where a hash stands elsewhere already (a 64-bit collision) the path ends above it; None if that is all.
        """
        nodes = self.nodes
        parent: Node | None = None
        start = 0
        if self.walked is fingerprint:  # mostly it was looked up just now
            known = self.walked_to
            # Nobody's, it is none of the trie's any more. It may have been cut or become shorter: it is shared still.
            if known is not None and known.holds and known.end <= depth:
                parent, start = known, known.end
        while start < depth:
            node = nodes.get(fingerprint[start])
            if node is None:
                return self._add_node(array("Q", fingerprint[start:depth]), start, depth, parent)
            if node.parent is not parent or node.start != start:
                break  # What lay below could not be found again, so it is not recorded.
            end = node.end
            if end > depth or node.hashes[-1] != fingerprint[end - 1]:  # else all of it is shared: the usual case
                end = node.shared_end(fingerprint, depth)
            if end < node.end:
                upper = self.cut(node, end)
                if upper is None:
                    break
                node = upper
            parent = node
            start = end
        return parent

    def cut(self, node: Node, depth: int) -> Node | None:
        """Cut a node at a depth inside it and return the new upper part. Every holder keeps both parts.

        The lower part stays the same object, so that the nodes below and the holds on it need no change. None, and
        nothing is changed, if the lower part's first hash stands elsewhere already (a 64-bit collision).
        """
        blocks = depth - node.start
        lower_hashes = node.hashes[blocks:]
        if lower_hashes[0] in self.nodes:
            return None
        upper = self._add_node(node.hashes[:blocks], node.start, depth, node.parent)
        self.size_bytes -= BLOCK_BYTES * blocks
        self.nodes[lower_hashes[0]] = node
        node.hashes = lower_hashes
        node.start = depth
        node.tokens -= upper.tokens
        node.parent = upper
        for worker, lower in node.holds.items():
            upper.holds[worker] = Hold(upper, lower.shelf, lower.touched, lower.claimants, lower)
            self.size_bytes += HOLD_BYTES + claim_bytes(lower.claimants)
        return upper

    def shorten(self, hold: Hold, depth: int) -> bool:
        """Let a worker keep a node only to a depth inside it; it must hold nothing below this node.

        False, and nothing is changed, if the node cannot be cut there.
        """
        node = hold.node
        if len(node.holds) > 1:
            if self.cut(node, depth) is None:
                return False
            self.drop(hold)
            return True
        total = self.tokens_at(depth)
        lost = node.total - total
        hold.shelf.tokens -= lost
        self.size_bytes -= BLOCK_BYTES * (node.end - depth)
        node.hashes = node.hashes[: depth - node.start]
        node.end = depth
        node.total = total
        node.tokens -= lost
        return True

    def place(self, leaf: Node, shelf: Shelf, now: float, claimant: tuple[int]) -> float:
        """Give a worker holds on a node and all above it, or refresh those it has; `claimant` joins those of nobody
        that are not confirmed.

        Returns when the deepest hold that was there was last used before: inf if none was, -inf if nobody has
        confirmed it yet.
        """
        worker, ends = shelf.worker, shelf.ends
        last_used = inf
        node: Node | None = leaf
        while node is not None:
            hold = node.holds.get(worker)
            if hold is None:
                node.holds[worker] = Hold(node, shelf, now, claimant, ends.older)
                self.size_bytes += HOLD_BYTES
                shelf.tokens += node.tokens
            else:
                before = hold.touched
                shelf.refresh(hold, now)
                if hold.claimants is not None:
                    if self.is_confirmed(hold):
                        self.set_claimants(hold, None)
                    else:
                        self.set_claimants(hold, hold.claimants + claimant)
                        before = -inf
                if before < last_used:  # only once: what lies above was used since
                    last_used = before
            node = node.parent
        return last_used

    def is_confirmed(self, hold: Hold) -> bool:
        """Whether one of the claimants has shown that the worker has the blocks.

        One that is no longer pending has: those that failed have been taken out of their holds.
        """
        return hold.claimants is None or not self.pending.issuperset(hold.claimants)

    def set_claimants(self, hold: Hold, claimants: Claimants) -> None:
        """Replace the claimants of a hold; None confirms it."""
        self.size_bytes += claim_bytes(claimants) - claim_bytes(hold.claimants)
        hold.claimants = claimants

    def drop(self, hold: Hold) -> None:
        """Take a hold away from its worker, and with the last hold the node, with the last node the shelf.

        The worker must hold nothing below this node.
        """
        node, shelf = hold.node, hold.shelf
        worker, holds, claimants = shelf.worker, node.holds, hold.claimants
        shelf.remove(hold)
        shelf.tokens -= node.tokens
        freed = HOLD_BYTES
        if claimants is not None and len(claimants) > 1:
            freed += claim_bytes(claimants)
        del holds[worker]
        if not holds:
            hashes = node.hashes
            del self.nodes[hashes[0]]
            freed += NODE_BYTES + BLOCK_BYTES * len(hashes)
        if shelf.ends.newer is shelf.ends:
            del self.shelves[worker]
            freed += SHELF_BYTES
        self.size_bytes -= freed

    def add_shelf(self, worker: Worker) -> Shelf:
        """The shelf of a worker that has none yet; it must get a hold before anything else happens."""
        shelf = self.shelves[worker] = Shelf(worker)
        self.size_bytes += SHELF_BYTES
        return shelf

    def _add_node(self, hashes: array[int], start: int, end: int, parent: Node | None) -> Node:
        node = self.nodes[hashes[0]] = Node(hashes, start, end, self.tokens_at(end), parent)
        self.size_bytes += NODE_BYTES + BLOCK_BYTES * (end - start)
        return node
