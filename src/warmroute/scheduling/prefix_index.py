"""The prefix index: which worker holds which prompt prefix, as far as the router can know.

It learns from where prompts are sent. `claim` records a placement at once, so that equal prompts of one burst see
each other; `confirm` makes it lasting when the worker has answered; `retract` takes back what a failed request alone
had claimed. What a worker is believed to hold is bounded like its real cache (in tokens, least recently used first,
tails before heads), forgotten after a time, and bounded in bytes over all workers. Every bound is kept inside the
call that grows the index; nothing runs beside it, and it is not locked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from warmroute.scheduling.prefix_nodes import Hold, Node, Shelf
from warmroute.scheduling.prefix_trie import BlockTokens, PrefixTrie
from warmroute.scheduling.worker import Worker


class PrefixIndex:
    """Approximate knowledge of the workers' KV caches.

    `max_bytes` bounds the memory of the index, `Worker.cache_tokens` what is believed of one worker; 0 means that
    nothing is remembered. An entry unused for `ttl_seconds` is forgotten; 0 means never. Times may be of any clock
    that does not run backwards.
    """

    def __init__(self, ladder: BlockTokens, max_bytes: int, ttl_seconds: float) -> None:
        self.max_bytes = max_bytes
        self.evictions = 0
        """Blocks forgotten for lack of room, counted for each worker that held them."""
        self._ttl = ttl_seconds or inf
        self._trie = PrefixTrie(ladder)
        self._abandoned: deque[tuple[Worker, Sequence[int], int]] = deque()

    @property
    def size_bytes(self) -> int:
        """Memory that the index takes, from the sizes of its objects."""
        return self._trie.size_bytes

    def tokens(self, worker: Worker) -> int:
        """Tokens that this worker is believed to hold."""
        shelf = self._trie.shelves.get(worker)
        return shelf.tokens if shelf else 0

    def match(self, fingerprint: Sequence[int]) -> Mapping[Worker, int]:
        """Tokens of the longest known prefix of this prompt, for every worker that holds any of it."""
        matched: dict[Worker, int] = {}
        last: Node | None = None
        for node in self._trie.path(fingerprint):
            # Down a path holders only get fewer. Only where some of them end need they be written down.
            if last is not None and len(node.holds) < len(last.holds):
                matched.update(dict.fromkeys(last.holds, self._trie.tokens_at(last.end)))
            last = node
        if last is not None:
            depth = last.shared_end(fingerprint, len(fingerprint))
            matched.update(dict.fromkeys(last.holds, self._trie.tokens_at(depth)))
        return matched

    def claim(self, worker: Worker, fingerprint: Sequence[int], now: float, claimant: int) -> None:
        """Record that a prompt is on its way to a worker, on behalf of `claimant` (a number unique to one request).

        Of a prompt larger than the worker's cache only the head is recorded.
        """
        self._settle_abandoned()
        trie = self._trie
        if worker in trie.shelves:
            self._expire(trie.shelves[worker], now)
        path = trie.grow(fingerprint, self._depth_within(0, len(fingerprint), worker.cache_tokens))
        for node in reversed(path):
            trie.place(node, worker, now, claimant)
        if path:
            self._fit_tokens(trie.shelves[worker])
            self._fit_bytes(trie.shelves[worker], path[-1].holds[worker])

    def confirm(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        """The worker has prefilled the prompt: what is left of this claim is now known for sure."""
        for hold in self._claims(worker, fingerprint, claimant):
            self._trie.set_claimants(hold, None)

    def retract(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        """The request failed: forget what this claim alone had added and is still there.

        Entries that were known before, were confirmed since or are claimed by others stay. A claim that was
        evicted, or purged with its worker, has left nothing behind, so nothing happens; the same holds for `confirm`.
        """
        for hold in reversed(list(self._claims(worker, fingerprint, claimant))):
            others = (hold.claimants or set()) - {claimant}
            if others:
                self._trie.set_claimants(hold, others)
            else:
                self._trie.drop(hold)

    def abandon(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        """Retract a claim before the next change of the index.

        For finalizers: the garbage collector may run one in the middle of any other call to the index.
        """
        self._abandoned.append((worker, fingerprint, claimant))

    def purge(self, worker: Worker) -> None:
        """Forget all of a worker at once: it was removed, or restarted with an empty cache."""
        self._settle_abandoned()
        while shelf := self._trie.shelves.get(worker):
            self._trie.drop(shelf.oldest)

    def sweep(self, now: float) -> None:
        """Forget what no worker has used for the time to live. Costs one step per worker and forgotten entry."""
        self._settle_abandoned()
        for shelf in list(self._trie.shelves.values()):
            self._expire(shelf, now)

    def _settle_abandoned(self) -> None:
        while self._abandoned:
            self.retract(*self._abandoned.popleft())

    def _claims(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> Iterator[Hold]:
        for node in self._trie.path(fingerprint):
            hold = node.holds.get(worker)
            if hold is None:
                return
            if hold.claimants is not None and claimant in hold.claimants:
                yield hold

    def _expire(self, shelf: Shelf, now: float) -> None:
        while not shelf.is_empty and now - shelf.oldest.touched > self._ttl:
            self._trie.drop(shelf.oldest)

    def _fit_tokens(self, shelf: Shelf) -> None:
        """Evict from the old end no more blocks than are needed; never the path just claimed, which fits."""
        while (excess := shelf.tokens - shelf.worker.cache_tokens) > 0:
            hold = shelf.oldest
            start, end = hold.node.start, hold.node.end
            kept = self._depth_within(start, end, self._trie.tokens_at(end) - excess)
            if kept == start or not self._trie.shorten(hold, kept):
                kept = start
                self._trie.drop(hold)
            self.evictions += end - kept

    def _fit_bytes(self, shelf: Shelf, newest_leaf: Hold) -> None:
        """Evict until the index fits: what this worker has not just claimed, then from the worker that has most."""
        trie = self._trie
        while trie.size_bytes > self.max_bytes:
            victim = shelf.oldest
            if shelf.is_empty or victim is newest_leaf:
                victim = max(trie.shelves.values(), key=lambda other: other.tokens).oldest
            self.evictions += victim.node.end - victim.node.start
            trie.drop(victim)

    def _depth_within(self, start: int, end: int, tokens: int) -> int:
        """The greatest depth from `start` to `end` down to which a prompt has no more than so many tokens."""
        tokens_at = self._trie.tokens_at
        if tokens_at(end) <= tokens:
            return end
        return start + bisect_right(range(start + 1, end + 1), tokens, key=tokens_at)
