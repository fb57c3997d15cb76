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


class _Tokens:
    """The packed tokens of a prompt from `start` on; those before it are found in `before`, over so many `links`.

    Apart from the prompt, so that whoever goes on from its tokens does not keep its keys.
    """

    __slots__ = ("before", "links", "own", "start")

    def __init__(self, own: bytes, start: int = 0, before: _Tokens | None = None) -> None:
        self.own = own
        self.start = start
        self.before = before
        self.links: int = 0 if before is None else before.links + 1

    def followed_by(self, packed: bytes, shared: int) -> _Tokens:
        """The first `shared` tokens and these. Whoever has the last of those is kept, unless it is mostly of no use."""
        known = self
        while known.before is not None and shared <= known.start:
            known = known.before
        start = shared - shared % _ALIGNED
        before: _Tokens | None = known
        if start <= known.start or 2 * (shared - known.start) < len(known.own) // TOKEN_BYTES:
            start, before = known.start, known.before
        if before is not None and before.links == _MOST_LINKS:
            start, before = 0, None
        return _Tokens(known.span(start, shared) + packed, start, before)

    def span(self, begin: int, end: int) -> bytes:
        """The packed tokens from `begin` to `end`."""
        if begin >= self.start:
            return self.own[(begin - self.start) * TOKEN_BYTES : (end - self.start) * TOKEN_BYTES]
        tokens, pieces = self, []
        while True:
            first = max(begin, tokens.start)
            if first < end:
                pieces.append(tokens.own[(first - tokens.start) * TOKEN_BYTES : (end - tokens.start) * TOKEN_BYTES])
                end = first
            if tokens.before is None or begin >= end:
                return b"".join(reversed(pieces))
            tokens = tokens.before


class TokenBlocks:
    """The packed token ids of one prompt, and the keys of its whole blocks, computed when they are asked for.

    `packed` has four little-endian bytes for each id: all of them or, of a prompt that begins with the first
    `shared_tokens` of `known`, those behind them. What is known of the shared ones is not copied, and neither are their
    keys computed again if the salt is the same. `estimated_tokens` is what the prompt was taken for by its bytes.
    """

    __slots__ = ("_extra", "_keys", "_tokens", "estimated_tokens", "tokens")

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
        self._extra = extra_bytes([salt]) if salt else b""
        # By block size and adapter: the keys, and how many of them are this prompt's; a longer one may have added some.
        self._keys: dict[tuple[int, str], tuple[list[int], int]] = {}
        if known is None or not shared_tokens:
            self._tokens = _Tokens(packed)
        else:
            self._tokens = known._tokens.followed_by(packed, shared_tokens)
            if known._extra == self._extra:
                for kind, (keys, count) in known._keys.items():
                    self._keys[kind] = keys, min(count, shared_tokens // kind[0])

    @property
    def packed(self) -> bytes:
        """All tokens."""
        return self._tokens.span(0, self.tokens)

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
        view = memoryview(self._tokens.span(len(keys) * block_size, whole * block_size))
        start = 0
        if not keys:
            first = digest(view[:width], root)
            append(digest(self._extra, first) if self._extra else first)
            start = width
        chain = keys[-1]
        for begin in range(start, len(view), width):
            chain = digest(view[begin : begin + width], chain)
            append(chain)
