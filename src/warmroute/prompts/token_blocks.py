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


def root_key(block_size: int, lora: str) -> int:
    """What the chain of a prompt starts from."""
    return chain_seed((b"%d" % block_size, lora.encode("utf-8", "surrogatepass")))


def extra_bytes(parts: Sequence[object]) -> bytes:
    """One extra of a block as the bytes that are hashed; b"" for none. TypeError for what no JSON could hold."""
    return msgspec.msgpack.encode(parts) if parts else b""


class TokenBlocks:
    """The packed token ids of one prompt, and the keys of its whole blocks, computed when they are asked for.

    `packed` has four little-endian bytes for each id. `estimated_tokens` is what the prompt was taken for by its bytes.
    Of `known`, a prompt that shares the first `shared_tokens` and the salt with this one, what is known of those is
    taken over.
    """

    __slots__ = ("_extra", "_keys", "estimated_tokens", "packed")

    def __init__(
        self,
        packed: bytes,
        salt: str | None = None,
        estimated_tokens: int = 0,
        known: TokenBlocks | None = None,
        shared_tokens: int = 0,
    ) -> None:
        self.packed = packed
        self.estimated_tokens = estimated_tokens
        self._extra = extra_bytes([salt]) if salt else b""
        self._keys: dict[tuple[int, str], list[int]] = {}
        if known is not None and known._extra == self._extra:
            for kind, keys in known._keys.items():
                self._keys[kind] = keys[: shared_tokens // kind[0]]

    @property
    def tokens(self) -> int:
        """How many tokens the prompt has."""
        return len(self.packed) // TOKEN_BYTES

    @property
    def size_bytes(self) -> int:
        """Memory that this takes, roughly."""
        return len(self.packed) + sum(40 * len(keys) for keys in self._keys.values())

    def keys(self, block_size: int, lora: str = "") -> Sequence[int]:
        """The keys of all whole blocks of so many tokens. Computed once for each size and adapter."""
        keys = self._keys.get((block_size, lora))
        if keys is None:
            keys = self._keys[block_size, lora] = []
        width = block_size * TOKEN_BYTES
        whole = len(self.packed) // width
        if len(keys) < whole:
            self._extend(keys, width, whole, root_key(block_size, lora))
        return keys

    def _extend(self, keys: list[int], width: int, whole: int, root: int) -> None:
        digest, append = xxh3_64_intdigest, keys.append
        view = memoryview(self.packed)
        if not keys:
            first = digest(view[:width], root)
            append(digest(self._extra, first) if self._extra else first)
        chain = keys[-1]
        for start in range(len(keys) * width, whole * width, width):
            chain = digest(view[start : start + width], chain)
            append(chain)
