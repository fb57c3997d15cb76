"""A prompt as the tokens that its engine sees, and the keys of its blocks.

The key of a block is xxh3_64(its packed token ids, key of the block before); the first block's chain starts from the
block size and the LoRA adapter. What else decides a KV cache without being a token (a cache salt, the hash of an image)
is mixed in behind the tokens: xxh3_64(extra, key). Engines' own hashes are never reproduced.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from xxhash import xxh3_64_intdigest

from warmroute.prompts.fingerprint import chain_seed

TOKEN_BYTES = 4
"""Bytes of a packed token id."""
_ALIGNED = 512
"""What a prompt takes over by reference ends at a multiple of this, so that blocks seldom lie on both sides of it."""
_MOST_LINKS = 64
"""After so many prompts that go on from each other one has all its tokens itself: what they waste stays bounded."""
_NO_KEYS: tuple[list[int], int] = ([], 0)


def root_key(block_size: int, lora: str) -> int:
    """What the chain of a prompt starts from."""
    return chain_seed((b"%d" % block_size, lora.encode("utf-8", "surrogatepass")))


def extra_bytes(parts: Sequence[object]) -> bytes:
    """One extra of a block as the bytes that are hashed; b"" for none. TypeError for what no JSON could hold."""
    return msgspec.msgpack.encode(parts) if parts else b""


class TokenBlocks:
    """The packed token ids of one prompt, and the keys of its whole blocks, computed when they are asked for.

    `packed` has four little-endian bytes for each id: all of them or, of a prompt that begins with the first
    `shared_tokens` of `known`, those behind them. What is known of the shared ones is not copied, and neither are their
    keys computed again if the salt is the same. `estimated_tokens` is what the prompt was taken for by its bytes.
    """

    __slots__ = ("_before", "_extra", "_keys", "_links", "_own", "_start", "estimated_tokens", "tokens")

    def __init__(
        self,
        packed: bytes,
        salt: str | None = None,
        estimated_tokens: int = 0,
        known: TokenBlocks | None = None,
        shared_tokens: int = 0,
    ) -> None:
        self.estimated_tokens = estimated_tokens
        self.tokens = shared_tokens + len(packed) // TOKEN_BYTES
        """How many tokens the prompt has."""
        # Its tokens from `_start` on; those before it are found in `_before`, over so many `_links`.
        self._own = packed
        self._start = self._links = 0
        self._before: TokenBlocks | None = None
        self._extra = extra_bytes([salt]) if salt else b""
        # By block size and adapter: the keys, and how many of them are this prompt's; a longer one may have added some.
        self._keys: dict[tuple[int, str], tuple[list[int], int]] = {}
        if known is not None and shared_tokens:
            if known._extra == self._extra:
                for kind, (keys, count) in known._keys.items():
                    self._keys[kind] = keys, min(count, shared_tokens // kind[0])
            self._go_on(known, shared_tokens)

    def _go_on(self, known: TokenBlocks, shared: int) -> None:
        """Begin with these tokens. Whoever has the last of them is kept, unless most of what it has is of no use."""
        while known._before is not None and shared <= known._start:
            known = known._before
        start = shared - shared % _ALIGNED
        if start <= known._start or 2 * (shared - known._start) < known.tokens - known._start:
            start, before = known._start, known._before
        else:
            before = known
        if before is not None and before._links == _MOST_LINKS:
            start, before = 0, None
        self._own = known._span(start, shared) + self._own
        self._start, self._before = start, before
        self._links = 0 if before is None else before._links + 1

    def _span(self, begin: int, end: int) -> bytes:
        """The packed tokens from `begin` to `end`."""
        if begin >= self._start:
            return self._own[(begin - self._start) * TOKEN_BYTES : (end - self._start) * TOKEN_BYTES]
        blocks, pieces = self, []
        while True:
            first = max(begin, blocks._start)
            if first < end:
                pieces.append(blocks._own[(first - blocks._start) * TOKEN_BYTES : (end - blocks._start) * TOKEN_BYTES])
                end = first
            if blocks._before is None or begin >= end:
                return b"".join(reversed(pieces))
            blocks = blocks._before

    @property
    def packed(self) -> bytes:
        """All tokens."""
        return self._span(0, self.tokens)

    def keys(self, block_size: int, lora: str = "") -> Sequence[int]:
        """The keys of all whole blocks of so many tokens, `tokens // block_size`; what stands behind them is not ours.

        Computed once for each size and adapter.
        """
        keys, count = self._keys.get((block_size, lora), _NO_KEYS)
        whole = self.tokens // block_size
        if count < whole:
            if not count or len(keys) > count:  # none yet, or somebody else has gone on from here
                keys = keys[:count]
            self._extend(keys, block_size, whole, root_key(block_size, lora))
            self._keys[block_size, lora] = keys, whole
        return keys

    def _extend(self, keys: list[int], block_size: int, whole: int, root: int) -> None:
        digest, append = xxh3_64_intdigest, keys.append
        width = block_size * TOKEN_BYTES
        view = memoryview(self._span(len(keys) * block_size, whole * block_size))
        start = 0
        if not keys:
            first = digest(view[:width], root)
            append(digest(self._extra, first) if self._extra else first)
            start = width
        chain = keys[-1]
        for begin in range(start, len(view), width):
            chain = digest(view[begin : begin + width], chain)
            append(chain)
