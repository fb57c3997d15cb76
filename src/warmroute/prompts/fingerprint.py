"""The fingerprint: a chain of xxh3-64 hashes, one per block of the ladder.

h_0 = xxh3_64(block_0, seed) and h_i = xxh3_64(block_i, h_{i-1}). A hash therefore stands for the whole prefix up to its
block's end: equal hashes at equal depth mean equal prefixes. Only whole blocks count; the tail is dropped, as an engine
drops the last partial KV block.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence

from xxhash import xxh3_64_intdigest

from warmroute.prompts.ladder import Ladder

_MAX_TOKEN_ID = 2**32 - 1


def fingerprint(data: bytes | memoryview, ladder: Ladder, seed: int) -> list[int]:
    """The chained hashes of the whole blocks of `data`; empty when it is shorter than the first block."""
    view = memoryview(data)
    digest = xxh3_64_intdigest
    chain = seed
    hashes: list[int] = []
    append = hashes.append
    for block in ladder.blocks(len(view)):
        chain = digest(view[block], chain)
        append(chain)
    return hashes


def extended(hashes: Sequence[int], rest: memoryview, ladder: Ladder) -> list[int]:
    """The hashes of longer data, from those of its first blocks, at least one, and what follows these."""
    digest = xxh3_64_intdigest
    longer = list(hashes)
    chain, begin = longer[-1], ladder.bytes_at(len(longer))
    for block in ladder.blocks(begin + len(rest))[len(longer) :]:
        chain = digest(rest[block.start - begin : block.stop - begin], chain)
        longer.append(chain)
    return longer


def chain_seed(parts: Iterable[bytes]) -> int:
    """One seed from JSON texts (which cannot contain a raw NUL, so no two lists of them look alike when joined)."""
    return xxh3_64_intdigest(b"\0".join(parts))


def pack_token_ids(ids: Sequence[int]) -> bytes:
    """Token ids as four little-endian bytes each. ValueError for what is no unsigned 32-bit integer."""
    try:
        packed = array("I", ids)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"token ids must be integers from 0 to {_MAX_TOKEN_ID}: {error}") from error
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
