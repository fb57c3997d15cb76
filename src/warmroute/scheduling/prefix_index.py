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
from warmroute.scheduling.recent_prefixes import PrefixUse, recent_uses
from warmroute.scheduling.worker import Worker

MISSES = 2
"""So many answers in a row must disagree before older entries are taken for evicted."""
LONGEST_ANSWER_SECONDS = 60.0
"""For an engine a prompt is used until its answer ends, for the index until it is sent: so much may be between."""


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
        self.disproved = 0
        """Blocks forgotten because answers showed that the engine had evicted them, counted likewise."""
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

    def recent_uses(self) -> list[PrefixUse]:
        """What each worker was given last: a bounded sample."""
        return recent_uses(self._trie.shelves.values())

    def match(self, fingerprint: Sequence[int]) -> Mapping[Worker, int]:
        """Tokens of the longest known prefix of this prompt, for every worker that holds any of it."""
        trie = self._trie
        find = trie.nodes.get
        matched: dict[Worker, int] = {}
        last: Node | None = None
        depth, length = 0, len(fingerprint)
        while depth < length:
            # As `PrefixTrie.path` does, without the cost of a generator.
            node = find(fingerprint[depth])
            if node is None or node.parent is not last or node.start != depth:
                break
            # Down a path holders only get fewer. Only where some of them end need they be written down.
            if last is not None and len(node.holds) < len(last.holds):
                matched.update(dict.fromkeys(last.holds, last.total))
            last = node
            depth = node.end
        if last is None:
            return matched
        if depth <= length and last.hashes[-1] == fingerprint[depth - 1]:
            tokens = last.total
            trie.walked, trie.walked_to = fingerprint, last
        else:
            tokens = trie.tokens_at(last.shared_end(fingerprint, length))
        if not matched:
            return dict.fromkeys(last.holds, tokens)
        matched.update(dict.fromkeys(last.holds, tokens))
        return matched

    @property
    def has_pending(self) -> bool:
        """Whether a prompt is on its way to any worker, not answered yet."""
        return bool(self._trie.pending)

    def on_its_way(self, worker: Worker, fingerprint: Sequence[int]) -> int:
        """Tokens of this prompt that an unanswered one brings to a worker; 0 if none does."""
        depth = 0
        for node in self._trie.path(fingerprint):
            hold = node.holds.get(worker)
            if hold is None:
                break
            if not self._trie.is_confirmed(hold):
                depth = node.shared_end(fingerprint, len(fingerprint))
        return self._trie.tokens_at(depth)

    def claim(self, worker: Worker, fingerprint: Sequence[int], now: float, claimant: int) -> float:
        """Record that a prompt is on its way to a worker, on behalf of `claimant` (a number unique to one request).

        Of a prompt larger than the worker's cache only the head is recorded. Returns when the deepest part that was
        known already had last been used: inf if nothing was known, -inf if nobody has confirmed that part yet.
        """
        # This is done for every request, mostly without anything to settle, expire or evict: what is not needed is
        # not called.
        if self._abandoned:
            self._settle_abandoned()
        trie = self._trie
        trie.pending.add(claimant)
        shelf = trie.shelves.get(worker)
        if shelf is not None and now - shelf.ends.newer.touched > self._ttl:
            self._expire(shelf, now)
            shelf = trie.shelves.get(worker)
        depth = len(fingerprint)
        if trie.tokens_at(depth) > worker.cache_tokens:
            depth = self._depth_within(0, depth, worker.cache_tokens)
        leaf = trie.grow(fingerprint, depth)
        if leaf is None:
            return inf
        if shelf is None:
            shelf = trie.add_shelf(worker)
        trie.walked, trie.walked_to = fingerprint, leaf  # the other worker of a pair gets the same
        last_used = trie.place(leaf, shelf, now, (claimant,))
        if shelf.tokens > worker.cache_tokens:
            self._fit_tokens(shelf)
        if trie.size_bytes > self.max_bytes:
            self._fit_bytes(shelf, leaf.holds[worker])
        return last_used

    def confirm(self, claimant: int) -> None:
        """The worker has prefilled the prompt: what is left of this claim is now known for sure."""
        self._trie.pending.discard(claimant)

    def retract(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        """The request failed: forget what this claim alone had added and is still there.

        Entries that were known before, were confirmed since or are claimed by others stay. A claim that was
        evicted, or purged with its worker, has left nothing behind, so nothing happens; the same holds for `confirm`.
        """
        trie = self._trie
        if claimant not in trie.pending:
            return
        for hold in reversed(list(self._claims(worker, fingerprint, claimant))):
            others = tuple(other for other in hold.claimants or () if other != claimant)
            if others:
                trie.set_claimants(hold, None if trie.is_confirmed(hold) else others)
            else:
                trie.drop(hold)
        trie.pending.discard(claimant)

    def abandon(self, worker: Worker, fingerprint: Sequence[int], claimant: int) -> None:
        """Retract a claim before the next change of the index.

        For finalizers: the garbage collector may run one in the middle of any other call to the index.
        """
        self._abandoned.append((worker, fingerprint, claimant))

    def bear_out(self, worker: Worker) -> None:
        """An answer showed that the worker had what it was believed to have."""
        shelf = self._trie.shelves.get(worker)
        if shelf is not None:
            shelf.misses = 0

    def disprove(self, worker: Worker, last_used: float) -> None:
        """An answer showed that the worker had evicted what it had last used at that time.

        Engines evict what was used least recently, so what is older is gone as well. It takes MISSES of such answers
        without a good one between them: a single request may have told its engine not to look into the cache.
        """
        self._settle_abandoned()
        shelf = self._trie.shelves.get(worker)
        if shelf is None:
            return
        shelf.misses += 1
        if shelf.misses < MISSES:
            return
        while (hold := shelf.oldest).touched < last_used - LONGEST_ANSWER_SECONDS:
            self.disproved += hold.node.end - hold.node.start
            self._trie.drop(hold)

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
        while now - shelf.ends.newer.touched > self._ttl:
            self._trie.drop(shelf.ends.newer)

    def _fit_tokens(self, shelf: Shelf) -> None:
        """Evict from the old end no more blocks than are needed; never the path just claimed, which fits."""
        trie, limit = self._trie, shelf.worker.cache_tokens
        while (excess := shelf.tokens - limit) > 0:
            hold = shelf.ends.newer
            node = hold.node
            evicted = self._shorten(hold, excess) if node.tokens > excess else 0
            if not evicted:
                evicted = node.end - node.start
                trie.drop(hold)
            self.evictions += evicted

    def _shorten(self, hold: Hold, excess: int) -> int:
        """Evict the tail of a hold, so many tokens at least. Returns how many blocks; 0 when it must go as a whole."""
        start, end = hold.node.start, hold.node.end
        kept = self._depth_within(start, end, hold.node.total - excess)
        return end - kept if kept > start and self._trie.shorten(hold, kept) else 0

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
