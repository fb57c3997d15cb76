"""The exact index: which worker holds which blocks of a prompt, as the engines themselves announce it.

Every key (see `prompts.token_blocks`) has a set of bits, one for each publisher that holds it. A prompt is matched by
walking its keys from the first one: a publisher drops out at the first block it lacks, so blocks behind a hole do not
count. The last token of a prompt is computed in any case, so a prompt that is there as a whole matches one block less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from warmroute.prompts.prompt import Prompt
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.scheduling.kv_source import KvSource, Name
from warmroute.scheduling.stretches import Steps, Stretches, steps_of
from warmroute.scheduling.worker import Worker

BLOCK_BYTES = 256
"""Memory that one block of one publisher takes, roughly: its entries in three dicts, with their numbers."""


MISSES = 5
"""So many answers in a row must have had less cached than was announced before a worker's events are read anew."""

STRETCH = 128
"""Blocks that are remembered together."""
_REMEMBERED = 8
"""One in so many blocks may be remembered as part of a stretch: that takes a third of what a block does."""


class Coverage(Enum):
    """How much of a worker's cache its events have told."""

    NONE = "none"
    """Nothing, or too much was lost: what is believed of the worker counts."""
    PARTIAL = "partial"
    """What came since we listen; what was there before shows only as it is used or evicted."""
    COMPLETE = "complete"
    """All of it: what is not in the index is not in the cache."""


class ExactIndex:
    """Bounded by `max_bytes`: a block for which there is no room is refused, and counts as not there."""

    def __init__(self, max_bytes: int, stretch: int = STRETCH) -> None:
        self.max_blocks = max_bytes // BLOCK_BYTES
        self.held = 0
        """Keys that are held, counted for each publisher."""
        self._owners: dict[int, int] = {}
        self._stretches = Stretches(stretch, self.max_blocks // _REMEMBERED)
        self._stretch_of = self._stretches.by_key.get
        self._sources: dict[Worker, dict[int, KvSource]] = {}
        self._coverage: dict[KvSource, Coverage] = {}
        self._covered: dict[Worker, Coverage] = {}
        self._misses: dict[Worker, int] = {}
        self.on_distrust: Callable[[Worker], None] = lambda worker: None
        """Told of a worker whose answers show that blocks are missing which its events have never taken back."""
        self.loras: set[str] = set()
        """The adapters that publishers have named."""
        self._by_bit: dict[int, KvSource] = {}
        self._units: dict[int, int] = {}

    @property
    def size_bytes(self) -> int:
        """Memory that the index takes, roughly."""
        return self.held * BLOCK_BYTES

    def source(self, worker: Worker, rank: int = 0) -> KvSource:
        """The publisher of this rank of a worker; a new one is not covered yet."""
        ranks = self._sources.setdefault(worker, {})
        source = ranks.get(rank)
        if source is None:
            bit = 1
            while bit in self._by_bit:
                bit <<= 1
            source = ranks[rank] = KvSource(self, worker, rank, bit, self._unit_known)
            self._by_bit[bit] = source
            self._coverage[source] = Coverage.NONE
            self.cover(source, Coverage.NONE)
        return source

    def sources(self) -> Iterator[tuple[KvSource, Coverage]]:
        """Every publisher and how far it is covered."""
        return iter(self._coverage.items())

    def cover(self, source: KvSource, coverage: Coverage) -> None:
        """Say how much of its cache a publisher has told."""
        if source in self._coverage:
            self._coverage[source] = coverage
            ranks = self._sources[source.worker]
            covered = {self._coverage[other] for other in ranks.values()}
            self._covered[source.worker] = next(least for least in Coverage if least in covered)

    def coverage(self, worker: Worker) -> Coverage:
        """How much is known of a worker: as much as of the rank of which least is known."""
        return self._covered.get(worker, Coverage.NONE)

    def drop(self, worker: Worker) -> None:
        """Forget a worker with all that its publishers have told."""
        self._covered.pop(worker, None)
        self._misses.pop(worker, None)
        for source in self._sources.pop(worker, {}).values():
            source.clear()
            del self._by_bit[source.bit]
            del self._coverage[source]
            self._take_bit(source)

    def clear(self, worker: Worker) -> None:
        """Forget what a worker's publishers have told, and rely on none of them until it is covered anew."""
        for source in self._sources.get(worker, {}).values():
            source.clear()
            self.cover(source, Coverage.NONE)

    def judge(self, worker: Worker, prompt: Prompt, believed_tokens: int, cached_tokens: int) -> None:
        """Compare an answer with what was believed: a publisher that had to drop events tells nobody.

        What is evicted while a request waits is no lie, if the events have told it; and that may come late, so it takes
        MISSES answers in a row that had less cached.
        """
        if cached_tokens >= believed_tokens:
            self._misses.pop(worker, None)
            return
        if self._took_back(worker, prompt, cached_tokens):
            return
        misses = self._misses[worker] = self._misses.get(worker, 0) + 1
        if misses >= MISSES:
            del self._misses[worker]
            self.on_distrust(worker)

    def _took_back(self, worker: Worker, prompt: Prompt, cached_tokens: int) -> bool:
        """Whether the events have lately taken back the block at which what was cached of this prompt ends."""
        blocks = prompt.blocks
        if blocks is None:
            return False
        lora = self._lora(prompt.model)
        for source in self._sources.get(worker, {}).values():
            if source.unit:
                first = cached_tokens // source.unit
                if first < blocks.tokens // source.unit and blocks.keys(source.unit, lora)[first] in source.taken_back:
                    return True
        return False

    def match(self, blocks: TokenBlocks, model: str | None = None) -> dict[Worker, int]:
        """Tokens of the longest prefix of this prompt that each worker holds; workers that hold none are left out.

        Of a worker with several ranks it is the mean over them: which one will get the request, its engine decides.
        """
        matched: dict[Worker, int] = {}
        lora = self._lora(model)
        for unit, bits in self._units.items():
            for bit, tokens in self._walk(blocks, unit, lora, bits):
                worker = self._by_bit[bit].worker
                matched[worker] = matched.get(worker, 0) + tokens
        for worker in matched:
            ranks = len(self._sources[worker])
            if ranks > 1:
                matched[worker] //= ranks
        return matched

    def _walk(self, blocks: TokenBlocks, unit: int, lora: str, live: int) -> Iterator[tuple[int, int]]:
        keys = blocks.keys(unit, lora)
        limit = (blocks.tokens - 1) // unit
        if limit < 1 or not self._owners.get(keys[0], 0) & live:  # as of most prompts that are new
            return
        length, stretch_of = self._stretches.length, self._stretch_of
        for depth in range(0, limit, length):
            end = depth + length
            stretch = stretch_of(keys[end - 1]) if end <= limit else None
            for offset, holders in self._look_up(keys[depth : min(end, limit)]) if stretch is None else stretch.steps:
                if gone := live & ~holders:
                    if depth + offset:
                        yield from _each(gone, (depth + offset) * unit)
                    live &= holders
                    if not live:
                        return
        yield from _each(live, limit * unit)

    def _look_up(self, keys: Sequence[int]) -> Steps:
        """Who holds how much of these blocks. A whole stretch is remembered, unless nobody has even its first block."""
        steps = steps_of(list(map(self._owners.get, keys)))
        if steps[0][1] and len(keys) == self._stretches.length:
            self._stretches.remember(keys, steps)
        return steps

    def _lora(self, model: str | None) -> str:
        """The model's name if it is one of the adapters that publishers have named."""
        return model if model is not None and model in self.loras else ""

    def _unit_known(self, source: KvSource) -> None:
        self._units[source.unit] = self._units.get(source.unit, 0) | source.bit

    def _take_bit(self, source: KvSource) -> None:
        left = self._units.get(source.unit, 0) & ~source.bit
        if left:
            self._units[source.unit] = left
        else:
            self._units.pop(source.unit, None)

    # What publishers use.

    def has_room(self) -> bool:
        """Whether another block may be remembered."""
        return self.held < self.max_blocks

    def count_parts(self, blocks: int) -> None:
        """So many blocks more (or less) are remembered that are only parts of a unit."""
        self.held += blocks

    def hold(self, key: int, bit: int) -> None:
        """A publisher has this key now."""
        owners = self._owners
        before = owners.get(key, 0)
        if not before & bit:
            owners[key] = before | bit
            self.held += 1
            if (stretch := self._stretch_of(key)) is not None:
                self._stretches.forget(stretch)

    def let_go(self, key: int, bit: int) -> None:
        """It has it no more."""
        before = self._owners.get(key, 0)
        if not before & bit:
            return
        self.held -= 1
        if (stretch := self._stretch_of(key)) is not None:
            self._stretches.forget(stretch)
        if before == bit:
            del self._owners[key]
        else:
            self._owners[key] = before & ~bit

    def anchor(self, parent: Name, source: KvSource) -> int | None:
        """The key that another publisher with the same units knows under this name.

        Engines with one model and one hash function give equal names to equal blocks, and unequal ones to all others:
        a name has 64 bits of a digest.
        """
        for other in self._coverage:
            if other is not source and other.unit == source.unit and parent in other.names:
                return other.names[parent]
        return None


def _each(bits: int, tokens: int) -> Iterator[tuple[int, int]]:
    while bits:
        lowest = bits & -bits
        yield lowest, tokens
        bits ^= lowest
