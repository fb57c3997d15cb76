"""What an engine announces of its KV cache, in words that belong to no wire format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

MAIN_TIER = "GPU"
"""How engines call their own cache, whatever the hardware is."""


class Stored(Struct, gc=False, frozen=True):
    """Blocks that are in a cache now, each the child of the one before it, the first one the child of `parent`.

    `tokens` holds the packed token ids (four little-endian bytes each) of all blocks, empty when only the hashes are
    told. `extras` has, if it is not empty, one entry per block for what else made its hash (b"" for nothing). `lora` is
    the adapter's name, "" for the base model. `salt` is what keeps equal hashes apart where an engine does not hash it.
    `tier` and `group` say which of an engine's caches this is; blocks of a group that is not `dense` (sliding windows,
    state-space layers) come and go by other rules than the prefix.
    """

    hashes: Sequence[int]
    parent: int | None
    tokens: bytes
    block_size: int
    lora: str = ""
    extras: Sequence[bytes] = ()
    salt: str = ""
    tier: str = MAIN_TIER
    group: int = 0
    dense: bool = True


class Removed(Struct, gc=False, frozen=True):
    """One copy of each of these blocks has left a cache."""

    hashes: Sequence[int]
    tier: str = MAIN_TIER
    group: int = 0


class Cleared(Struct, gc=False, frozen=True):
    """Nothing is in any cache of the engine any more."""


KvEvent: TypeAlias = Stored | Removed | Cleared
