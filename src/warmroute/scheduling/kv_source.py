"""What one publisher of KV events (one data-parallel rank of one worker) has announced and not taken back.

Every rule here is a bug that some router had:

- Token ids are hashed to keys of our own, and the engine's hash is only a name for them: which of its hashes stands for
  which key is known per publisher.
- Copies are counted for each tier and group. An engine stores a block a second time when a prompt ends exactly with
  it, and takes both copies back one by one. Where an engine announces again what it has announced before
  (`counts_copies` is false) they are not counted. What was never announced cannot be taken back. In doubt a block is
  forgotten too early: that costs less than to believe in it for ever.
- Blocks below an unknown parent (we came late, or something was lost) have no key, unless another publisher knows that
  parent. They are counted, and `is_incomplete` asks for a replay.
- Only dense groups count, and only one block size: a window that slides is no prefix.
- Blocks smaller than SMALLEST_UNIT tokens (SGLang's default is 1) are taken together; the last one of a unit stands for
  all of it, for engines evict from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from xxhash import xxh3_64_intdigest

from warmroute.prompts.token_blocks import TOKEN_BYTES, extra_bytes, root_key
from warmroute.scheduling.kv_events import Cleared, KvEvent, Removed, Stored
from warmroute.scheduling.taken_back import TakenBack
from warmroute.scheduling.worker import Worker

MOST_ADAPTERS = 1024
SMALLEST_UNIT = 16
"""Tokens of the smallest block that gets a key."""

Name = int | tuple[int, str]
"""An engine's hash; with the salt where the engine does not hash that."""


class Keys(Protocol):
    """Where keys are written down for all publishers."""

    loras: set[str]
    """The adapters that publishers have named."""

    def has_room(self) -> bool:
        """Whether another block may be remembered."""

    def count_parts(self, blocks: int) -> None:
        """So many blocks more (or less) are remembered that are only parts of a unit."""

    def hold(self, key: int, bit: int) -> None:
        """A publisher has this key now."""

    def let_go(self, key: int, bit: int) -> None:
        """It has it no more."""

    def anchor(self, parent: Name, source: KvSource) -> int | None:
        """The key that another publisher with the same units knows under this name."""


class KvSource:
    """The blocks of one publisher. `bit` is its mark in the index, `unit` the tokens of a key (0: not known yet)."""

    def __init__(self, keys: Keys, worker: Worker, rank: int, bit: int, on_unit: Callable[[KvSource], None]) -> None:
        self.worker = worker
        self.rank = rank
        self.bit = bit
        self.unit = 0
        self.counts_copies = True
        self.is_incomplete = False
        """Whether blocks have come whose parents are not known. Whoever has had them replayed sets it back."""
        self.stored = self.removed = self.orphans = self.refused = 0
        """Blocks that were announced, taken back, without a known parent, and those that no rule admits."""
        self.names: dict[Name, int] = {}
        """The key for each of the engine's names."""
        self.taken_back = TakenBack()
        self._keys = keys
        self._on_unit = on_unit
        self._block_size = 0
        self._parts: dict[Name, tuple[int, bytes]] = {}
        self._places: dict[tuple[str, int], dict[Name, int]] = {}
        self._salted: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many of the engine's blocks are known to be there."""
        return len(self.names) + len(self._parts)

    def apply(self, events: Iterable[KvEvent]) -> None:
        """Take in events, in the order in which they happened."""
        for event in events:
            if isinstance(event, Stored):
                self._store(event)
            elif isinstance(event, Removed):
                self._remove(event)
            elif isinstance(event, Cleared):
                self.clear()

    def clear(self) -> None:
        """Nothing is there any more: the engine has said so, or has restarted, or too much of its word is lost."""
        for key in self.names.values():
            self._keys.let_go(key, self.bit)
        self.names.clear()
        self._keys.count_parts(-len(self._parts))
        self._parts.clear()
        self._places.clear()
        self._salted.clear()

    def _store(self, event: Stored) -> None:
        hashes = event.hashes
        if not self._admits(event):
            self.refused += len(hashes)
            return
        salt = event.salt
        names: list[Name] = [(one, salt) for one in hashes] if salt else list(hashes)
        if salt:
            for one in hashes:
                self._salted.setdefault(one, {})[salt] = None
        place = self._places.setdefault((event.tier, event.group), {})
        if not event.tokens:
            self._count_known(names, place)
            return
        base = self._base(event)
        if base is None:
            self.orphans += len(hashes)
            self.is_incomplete = True
            return
        if event.lora and len(self._keys.loras) < MOST_ADAPTERS:
            self._keys.loras.add(event.lora)
        self.stored += self._place_all(event, names, place, *base)

    def _admits(self, event: Stored) -> bool:
        """Whether these blocks can be part of a prefix: dense, of the one block size, and as many as they should be."""
        size = event.block_size
        if not event.dense or size < 1 or (event.extras and len(event.extras) != len(event.hashes)):
            return False
        if event.tokens and len(event.tokens) != len(event.hashes) * size * TOKEN_BYTES:
            return False
        if not self._block_size:
            self._block_size = size
            self.unit = size if size >= SMALLEST_UNIT else -(-SMALLEST_UNIT // size) * size
            self._on_unit(self)
        return size == self._block_size

    def _base(self, event: Stored) -> tuple[int, bytes] | None:
        """The last key before these blocks, and the tokens between it and them."""
        parent = event.parent
        if parent is None:
            return root_key(self.unit, event.lora), b""
        name: Name = (parent, event.salt) if event.salt else parent
        key = self.names.get(name)
        if key is None:
            if (part := self._parts.get(name)) is not None:
                return part
            key = self._keys.anchor(name, self)
            if key is None:
                return None
        return key, b""

    def _place_all(self, event: Stored, names: list[Name], place: dict[Name, int], chain: int, partial: bytes) -> int:
        """Give each block its key and count its copy. Returns how many there was room for."""
        width, whole = event.block_size * TOKEN_BYTES, self.unit * TOKEN_BYTES
        known, keys, bit, counts = self.names, self._keys, self.bit, self.counts_copies
        view = memoryview(event.tokens)
        extras = event.extras
        root = root_key(self.unit, event.lora)
        salt = extra_bytes([event.salt]) if event.salt else b""
        start = 0
        for number, name in enumerate(names):
            if name not in place and not keys.has_room():
                self.refused += len(names) - number
                return number
            tokens: bytes | memoryview = view[start : start + width]
            start += width
            if width < whole:
                tokens = partial = partial + tokens
                if len(partial) < whole:
                    self._remember_part(name, chain, partial)
                    place[name] = place.get(name, 0) + 1 if counts else 1
                    continue
                partial = b""
            is_first = chain == root
            chain = xxh3_64_intdigest(tokens, chain)
            if salt and is_first:
                chain = xxh3_64_intdigest(salt, chain)
            if extras and extras[number]:
                chain = xxh3_64_intdigest(extras[number], chain)
            before = known.get(name)
            if before != chain:
                if before is not None:  # The name stands for other tokens now: the old ones are no longer there.
                    keys.let_go(before, bit)
                keys.hold(chain, bit)
                known[name] = chain
            place[name] = place.get(name, 0) + 1 if counts else 1
        return len(names)

    def _remember_part(self, name: Name, chain: int, partial: bytes) -> None:
        if name not in self._parts:
            self._keys.count_parts(1)
        self._parts[name] = chain, partial

    def _count_known(self, names: list[Name], place: dict[Name, int]) -> None:
        """Another tier has these blocks as well, and tells only their hashes."""
        for name in names:
            if name in self.names or name in self._parts:
                place[name] = place.get(name, 0) + 1 if self.counts_copies else 1
                self.stored += 1
            else:
                self.orphans += 1
                self.is_incomplete = True

    def _remove(self, event: Removed) -> None:
        place = self._places.get((event.tier, event.group))
        if place is None:
            return
        for one in event.hashes:
            name = self._name_in(place, one)
            if name is None:
                continue
            self.removed += 1
            copies = place[name]
            if copies > 1:
                place[name] = copies - 1
                continue
            del place[name]
            if len(self._places) > 1 and any(name in other for other in self._places.values()):
                continue
            if isinstance(name, tuple):
                self._forget_salt(*name)
            key = self.names.pop(name, None)
            if key is not None:
                self._keys.let_go(key, self.bit)
                self.taken_back.add(key)
            elif self._parts.pop(name, None) is not None:
                self._keys.count_parts(-1)

    def _name_in(self, place: dict[Name, int], one: int) -> Name | None:
        """Which block of this place is meant. The engine names no salt: among equal hashes it may be the wrong one."""
        if one in place:
            return one
        salted = self._salted.get(one, ())
        return next(((one, salt) for salt in salted if (one, salt) in place), None)

    def _forget_salt(self, one: int, salt: str) -> None:
        salts = self._salted[one]
        salts.pop(salt, None)
        if not salts:
            del self._salted[one]
