"""The ladder: where the blocks of a prompt end.

Blocks are dense at the start and wider the deeper they lie, so that precision stays proportional to depth and a
512 KB prompt costs about 120 hashes instead of 2,000. Four bytes count as one token everywhere: token ids are packed
as four bytes each, so the same ladder is exact for them and an estimate for text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

BYTES_PER_TOKEN = 4

# (block width, up to this many bytes); beyond the last rung blocks are _WIDEST bytes wide.
_RUNGS = ((256, 4 * 1024), (1024, 32 * 1024), (4 * 1024, 256 * 1024))
_WIDEST = 16 * 1024

# So many blocks at least are looked up, not computed; with the default ladder they cover 7 MB.
_TABLE_DEPTH = 512


@dataclass(frozen=True, slots=True)
class Ladder:
    """Block ends in bytes: first those listed in `ends`, then one every `step` bytes for ever."""

    ends: tuple[int, ...]
    step: int
    # Looked up for every prompt: where the first blocks end, their slices, and by depth the tokens before them.
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _slices: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    _tokens: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ends = tuple(self.bytes_at(depth) for depth in range(1, max(_TABLE_DEPTH, len(self.ends)) + 1))
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "_slices", tuple(map(slice, (0, *ends), ends)))
        object.__setattr__(self, "_tokens", tuple(end // BYTES_PER_TOKEN for end in (0, *ends)))

    @classmethod
    def default(cls) -> Ladder:
        """Every 256 B up to 4 KiB, 1 KiB up to 32 KiB, 4 KiB up to 256 KiB, then every 16 KiB."""
        ends: list[int] = []
        for width, limit in _RUNGS:
            start = ends[-1] if ends else 0
            ends.extend(range(start + width, limit + 1, width))
        return cls(tuple(ends), _WIDEST)

    @classmethod
    def fixed(cls, block_bytes: int) -> Ladder:
        """Blocks of one width (FastDeploy's cache-block-size, in tokens, times 4). ValueError below 1."""
        if block_bytes < 1:
            raise ValueError(f"block_bytes must be at least 1, got {block_bytes}")
        return cls((), block_bytes)

    def depth(self, length: int) -> int:
        """How many whole blocks fit into `length` bytes."""
        listed = self.ends[-1] if self.ends else 0
        if length < listed:
            return bisect_right(self.ends, length)
        return len(self.ends) + (length - listed) // self.step

    def block_ends(self, length: int) -> Sequence[int]:
        """The ends, in bytes, of the whole blocks that fit into `length` bytes."""
        if length < self._ends[-1]:
            return self._ends[: bisect_right(self._ends, length)]
        return (*self._ends, *range(self._ends[-1] + self.step, length + 1, self.step))

    def blocks(self, length: int) -> Sequence[slice]:
        """The whole blocks that fit into `length` bytes."""
        if length < self._ends[-1]:
            return self._slices[: bisect_right(self._ends, length)]
        ends = self.block_ends(length)
        return tuple(map(slice, (0, *ends), ends))

    def bytes_at(self, depth: int) -> int:
        """Bytes covered by the first `depth` blocks."""
        if depth <= 0:
            return 0
        deeper = depth - len(self.ends)
        if deeper <= 0:
            return self.ends[depth - 1]
        return (self.ends[-1] if self.ends else 0) + deeper * self.step

    def tokens_at(self, depth: int) -> int:
        """Whole tokens covered by the first `depth` blocks."""
        tokens = self._tokens
        return tokens[depth] if depth < len(tokens) else self.bytes_at(depth) // BYTES_PER_TOKEN
