"""A naive prefix index, one dict entry per prefix and worker, and a check of everything the real one promises."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.prefix_nodes import (
    BLOCK_BYTES,
    HOLD_BYTES,
    NODE_BYTES,
    SHELF_BYTES,
    Hold,
    Node,
    Shelf,
    claim_bytes,
)
from warmroute.scheduling.worker import Worker

Prefix = tuple[int, ...]


@dataclass
class Belief:
    touched: float
    claimants: set[int] | None


class NaivePrefixIndex:
    """Every prefix of every worker by itself, in the order of last use; no bound on bytes."""

    def __init__(self, ladder: Ladder, ttl_seconds: float) -> None:
        self.ladder = ladder
        self.ttl = ttl_seconds
        self.beliefs: dict[Worker, OrderedDict[Prefix, Belief]] = {}

    def tokens(self, worker: Worker) -> int:
        at = self.ladder.tokens_at
        return sum(at(len(prefix)) - at(len(prefix) - 1) for prefix in self.beliefs.get(worker, ()))

    def match(self, fingerprint: Sequence[int]) -> dict[Worker, int]:
        matched = {}
        for worker, beliefs in self.beliefs.items():
            depths = [d for d in range(1, len(fingerprint) + 1) if tuple(fingerprint[:d]) in beliefs]
            if depths:
                matched[worker] = self.ladder.tokens_at(max(depths))
        return matched

    def claim(self, worker: Worker, fingerprint: Sequence[int], now: float, claimant: int) -> None:
        beliefs = self.beliefs.setdefault(worker, OrderedDict())
        self._expire(beliefs, now)
        fitting = [d for d in range(1, len(fingerprint) + 1) if self.ladder.tokens_at(d) <= worker.cache_tokens]
        for depth in reversed(fitting):
            prefix = tuple(fingerprint[:depth])
            belief = beliefs.setdefault(prefix, Belief(now, set()))
            belief.touched = now
            if belief.claimants is not None:
                belief.claimants.add(claimant)
            beliefs.move_to_end(prefix)
        while self.tokens(worker) > worker.cache_tokens:
            beliefs.popitem(last=False)

    def confirm(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        for _, belief in self._claimed(worker, fingerprint, claimant):
            belief.claimants = None

    def retract(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        for prefix, belief in self._claimed(worker, fingerprint, claimant):
            assert belief.claimants
            belief.claimants.discard(claimant)
            if not belief.claimants:
                del self.beliefs[worker][prefix]

    def purge(self, worker: Worker) -> None:
        self.beliefs.pop(worker, None)

    def sweep(self, now: float) -> None:
        for beliefs in self.beliefs.values():
            self._expire(beliefs, now)

    def _claimed(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> list[tuple[Prefix, Belief]]:
        beliefs = self.beliefs.get(worker, OrderedDict())
        prefixes = [tuple(fingerprint[:d]) for d in range(1, len(fingerprint) + 1)]
        known = [(prefix, beliefs[prefix]) for prefix in prefixes if prefix in beliefs]
        return [(prefix, belief) for prefix, belief in known if claimant in (belief.claimants or ())]

    def _expire(self, beliefs: OrderedDict[Prefix, Belief], now: float) -> None:
        if self.ttl:
            for prefix in [p for p, belief in beliefs.items() if now - belief.touched > self.ttl]:
                del beliefs[prefix]


def holds_of(shelf: Shelf) -> Iterator[Hold]:
    """The holds of a worker, oldest first."""
    hold = shelf.oldest
    while hold is not shelf.ends:
        yield hold
        hold = hold.newer


def prefix_of(node: Node) -> Prefix:
    """The hashes from the root to the end of a node."""
    above = prefix_of(node.parent) if node.parent else ()
    return above + tuple(node.hashes)


def contents(index: PrefixIndex) -> dict[Worker, list[tuple[Prefix, float, set[int] | None]]]:
    """All that the index believes, block by block in the order of eviction, in the form of `naive_contents`."""
    return {
        worker: [
            (prefix_of(hold.node)[:depth], hold.touched, claimants_of(index, hold))
            for hold in holds_of(shelf)
            for depth in range(hold.node.end, hold.node.start, -1)
        ]
        for worker, shelf in index._trie.shelves.items()
    }


def naive_contents(model: NaivePrefixIndex) -> dict[Worker, list[tuple[Prefix, float, set[int] | None]]]:
    """All that the model believes, in the order of eviction."""
    return {
        worker: [(prefix, belief.touched, belief.claimants) for prefix, belief in beliefs.items()]
        for worker, beliefs in model.beliefs.items()
        if beliefs
    }


def claimants_of(index: PrefixIndex, hold: Hold) -> set[int] | None:
    """The requests that would bring a hold's blocks; None when one of them has."""
    return None if index._trie.is_confirmed(hold) else set(hold.claimants)


def check_books(index: PrefixIndex, ladder: Ladder) -> None:
    """Nodes, holds and shelves agree with one another and with the counted tokens and bytes."""
    trie = index._trie
    holds = 0
    size = 0
    for shelf in trie.shelves.values():
        held = list(holds_of(shelf))
        assert held, "an empty shelf is kept"
        assert all(hold.newer.older is hold and hold.older.newer is hold for hold in held)
        assert all(hold.shelf is shelf and hold.node.holds[shelf.worker] is hold for hold in held)
        assert [hold.touched for hold in held] == sorted(hold.touched for hold in held)
        assert shelf.tokens == sum(hold.node.tokens for hold in held)
        holds += len(held)
        size += SHELF_BYTES + sum(HOLD_BYTES + claim_bytes(hold.claimants) for hold in held)
    for first, node in trie.nodes.items():
        assert node.hashes[0] == first
        assert len(node.hashes) == node.end - node.start > 0
        assert node.tokens == ladder.tokens_at(node.end) - ladder.tokens_at(node.start)
        assert node.holds, "a node that nobody holds is kept"
        size += NODE_BYTES + BLOCK_BYTES * len(node.hashes)
    assert holds == sum(len(node.holds) for node in trie.nodes.values())
    assert index.size_bytes == size
    assert index.size_bytes <= index.max_bytes


def check(index: PrefixIndex, ladder: Ladder) -> None:
    """The books, and the rules that `prefix_nodes` states for chained hashes."""
    check_books(index, ladder)
    trie = index._trie
    for node in trie.nodes.values():
        if node.parent is None:
            assert node.start == 0
            continue
        assert trie.nodes[node.parent.hashes[0]] is node.parent
        assert node.parent.end == node.start
        assert node.holds.keys() <= node.parent.holds.keys(), "a worker holds a node without its parent"
    for worker, shelf in trie.shelves.items():
        assert shelf.tokens <= worker.cache_tokens
        seen: set[Node] = set()
        for hold in holds_of(shelf):
            seen.add(hold.node)
            assert hold.node.parent not in seen, "a parent would be evicted before its child"
            above = claimants_of(index, hold.node.parent.holds[worker]) if hold.node.parent else None
            claimants = claimants_of(index, hold)
            assert above is None or (claimants is not None and above >= claimants)
