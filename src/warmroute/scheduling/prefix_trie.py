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

    def grow(self, fingerprint: Sequence[int], depth: int) -> list[Node]:
        """The nodes that make up `fingerprint[:depth]` exactly, made or cut where needed.

        Each of them must get a hold before anything else happens: a node without holds is never found by eviction.
        """
        path: list[Node] = []
        parent: Node | None = None
        start = 0
        while start < depth:
            node = self.nodes.get(fingerprint[start])
            if node is None:
                path.append(self._add_node(array("Q", fingerprint[start:depth]), start, parent))
                break
            if node.parent is not parent or node.start != start:
                break  # As above. What lay below could not be found again, so it is not recorded.
            end = node.end
            if end > depth or node.hashes[-1] != fingerprint[end - 1]:  # else all of it is shared: the usual case
                end = node.shared_end(fingerprint, depth)
            if end < node.end:
                upper = self.cut(node, end)
                if upper is None:
                    break
                node = upper
            path.append(node)
            parent = node
            start = end
        return path

    def cut(self, node: Node, depth: int) -> Node | None:
        """Cut a node at a depth inside it and return the new upper part. Every holder keeps both parts.

        The lower part stays the same object, so that the nodes below and the holds on it need no change. None, and
        nothing is changed, if the lower part's first hash stands elsewhere already (a 64-bit collision).
        """
        blocks = depth - node.start
        lower_hashes = node.hashes[blocks:]
        if lower_hashes[0] in self.nodes:
            return None
        upper = self._add_node(node.hashes[:blocks], node.start, node.parent)
        self.size_bytes -= BLOCK_BYTES * blocks
        self.nodes[lower_hashes[0]] = node
        node.hashes = lower_hashes
        node.start = depth
        node.tokens -= upper.tokens
        node.parent = upper
        for lower in node.holds.values():
            lower.shelf.insert_after(lower, self._add_hold(upper, lower.shelf, lower.touched, lower.claimants))
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
        tokens = self.tokens_at(depth) - self.tokens_at(node.start)
        hold.shelf.tokens -= node.tokens - tokens
        self.size_bytes -= BLOCK_BYTES * (node.end - depth)
        node.hashes = node.hashes[: depth - node.start]
        node.end = depth
        node.tokens = tokens
        return True

    def place(self, node: Node, shelf: Shelf, now: float, claimant: tuple[int]) -> float:
        """Give a worker a hold on a node, or refresh the one it has; `claimant` joins unless it is confirmed.

        Returns when the hold was last used before: inf for a new one, -inf for one that nobody has confirmed yet.
        """
        hold = node.holds.get(shelf.worker)
        if hold is None:
            shelf.append(self._add_hold(node, shelf, now, claimant))
            shelf.tokens += node.tokens
            return inf
        last_used = hold.touched
        shelf.refresh(hold, now)
        if hold.claimants is not None:
            if self.is_confirmed(hold):
                self.set_claimants(hold, None)
            else:
                self.set_claimants(hold, hold.claimants + claimant)
                last_used = -inf
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
        shelf.remove(hold)
        shelf.tokens -= node.tokens
        self.size_bytes -= HOLD_BYTES
        if hold.claimants and len(hold.claimants) > 1:
            self.size_bytes -= claim_bytes(hold.claimants)
        del node.holds[shelf.worker]
        if not node.holds:
            del self.nodes[node.hashes[0]]
            self.size_bytes -= NODE_BYTES + BLOCK_BYTES * len(node.hashes)
        if shelf.ends.newer is shelf.ends:
            del self.shelves[shelf.worker]
            self.size_bytes -= SHELF_BYTES

    def add_shelf(self, worker: Worker) -> Shelf:
        """The shelf of a worker that has none yet; it must get a hold before anything else happens."""
        shelf = self.shelves[worker] = Shelf(worker)
        self.size_bytes += SHELF_BYTES
        return shelf

    def _add_node(self, hashes: array[int], start: int, parent: Node | None) -> Node:
        tokens = self.tokens_at(start + len(hashes)) - self.tokens_at(start)
        node = self.nodes[hashes[0]] = Node(hashes, start, tokens, parent)
        self.size_bytes += NODE_BYTES + BLOCK_BYTES * len(hashes)
        return node

    def _add_hold(self, node: Node, shelf: Shelf, touched: float, claimants: Claimants) -> Hold:
        hold = node.holds[shelf.worker] = Hold(node, shelf, touched, claimants)
        self.size_bytes += HOLD_BYTES
        if claimants and len(claimants) > 1:
            self.size_bytes += claim_bytes(claimants)
        return hold
