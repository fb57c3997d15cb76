"""Engines' caches for tests: events as they come from a publisher, and prompts that match them."""

from __future__ import annotations

from collections.abc import Sequence

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.kv_events import Removed, Stored

SIZE = 16
"""Tokens of a block."""


def ids(blocks: str, size: int = SIZE) -> list[int]:
    """Token ids of a prompt: a letter for each block."""
    return [ord(letter) * 100 + position for letter in blocks for position in range(size)]


def prompt(blocks: str, tail: int = 1, salt: str | None = None) -> TokenBlocks:
    """A prompt of these blocks and `tail` tokens more."""
    return TokenBlocks(pack_token_ids([*ids(blocks), *range(tail)]), salt)


def name(blocks: str) -> int:
    """An engine's hash of a prefix: whatever it is, it must be equal for equal prefixes only."""
    return int.from_bytes(blocks.encode().rjust(8)[-8:], "big")


def stored(blocks: str, start: int = 0, size: int = SIZE, **more: object) -> Stored:
    """The announcement of the blocks from `start` on."""
    hashes = [name(blocks[: end + 1]) for end in range(start, len(blocks))]
    parent = name(blocks[:start]) if start else None
    given = {"tokens": pack_token_ids(ids(blocks[start:], size))} | more
    return Stored(hashes=hashes, parent=parent, block_size=size, **given)  # type: ignore[arg-type]


def removed(*prefixes: str, **more: object) -> Removed:
    """The announcement that the last block of each of these prefixes is gone."""
    return Removed([name(prefix) for prefix in prefixes], **more)  # type: ignore[arg-type]


def matches(index: ExactIndex, blocks: TokenBlocks, model: str | None = None) -> dict[str, int]:
    """Matched blocks by worker id."""
    return {worker.id: tokens // SIZE for worker, tokens in index.match(blocks, model).items()}


def hashes_of(events: Sequence[object]) -> list[int]:
    """All hashes that events name, in their order."""
    return [one for event in events if isinstance(event, Stored | Removed) for one in event.hashes]
