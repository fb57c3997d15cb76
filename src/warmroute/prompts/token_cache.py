"""Tokenising a conversation again and again, at the price of what was added to it.

A text is cut where its tokens on both sides cannot depend on each other: before a special token, and before a line that
begins with a visible sign. What was tokenised before is remembered with its cuts; of a text that begins like it, only
what follows the last common cut is encoded. Texts are found again by a ladder of hashes, and compared in full.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from warmroute.prompts.fingerprint import fingerprint
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.token_blocks import TOKEN_BYTES, TokenBlocks

_LINE_CUT = re.compile(r"\n(?=\S)")
_CUT_EVERY = 4096
"""Characters between two cuts at line ends."""
_ENTRY_BYTES = 1000
_KEY_BYTES_PER_TOKEN = 4
"""Of a block key in every 16 tokens, roughly."""


class Encoder(Protocol):
    """What is needed of a tokenizer."""

    specials: Sequence[str]
    """The texts of its special tokens before which a text may be cut."""
    cuts_at_lines: bool
    """Whether it may be cut behind a line end that a visible sign follows."""

    def encode_parts(self, parts: Sequence[str], /) -> list[array[int]]:
        """The ids of each part, without special tokens added."""


class _Entry:
    """A text with its tokens. `cuts`: places (in characters) and how many tokens come before them.

    `reachable` counts the hashes that lead here; when longer texts have taken over all of them, the entry goes.
    """

    __slots__ = ("blocks", "cuts", "hashes", "reachable", "size", "text")

    def __init__(self, text: str, blocks: TokenBlocks, cuts: list[tuple[int, int]], hashes: list[int]) -> None:
        self.text = text
        self.blocks = blocks
        self.cuts = cuts
        self.hashes = hashes
        self.reachable = 0
        self.size = _ENTRY_BYTES + 2 * len(text) + blocks.tokens * (TOKEN_BYTES + _KEY_BYTES_PER_TOKEN)


class Work(NamedTuple):
    """What is left to do for a text: `parts` to encode, behind the `tokens` that `known` has before `start`."""

    text: str
    hashes: list[int]
    known: TokenBlocks | None
    cuts: list[tuple[int, int]]
    start: int
    tokens: int
    parts: list[str]


class TokenCache:
    """Bounded by `max_bytes`: the texts that were used least recently go. Not to be used by two threads at once."""

    def __init__(self, encoder: Encoder, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._encoder = encoder
        self._ladder = Ladder.default()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._by_hash: dict[int, int] = {}
        self._next = 0
        specials = "|".join(re.escape(one) for one in sorted(encoder.specials, key=len, reverse=True) if one)
        self._special = re.compile(specials) if specials else None

    def plan(self, text: str) -> Work:
        """Look up what is known of a text, and cut what is left."""
        hashes = fingerprint(text.encode("utf-8", "surrogatepass"), self._ladder, 0)
        number = next((found for one in reversed(hashes) if (found := self._by_hash.get(one)) is not None), None)
        if number is None:
            return self._work(text, hashes, None, [], 0, 0)
        self._entries.move_to_end(number)
        entry = self._entries[number]
        shared = self._shared_cuts(text, entry)
        start, tokens = entry.cuts[shared - 1] if shared else (0, 0)
        return self._work(text, hashes, entry.blocks, entry.cuts[:shared], start, tokens)

    def finish(
        self,
        work: Work,
        ids: Iterable[array[int]],
        salt: str | None = None,
        estimated_tokens: int = 0,
        prefix: array[int] | None = None,
    ) -> TokenBlocks:
        """Put the tokens together, remember them, and give out the prompt.

        `ids` are those of the parts, `prefix` what stands before every text of this cache.
        """
        cuts, position, tokens = work.cuts, work.start, work.tokens
        pieces: list[bytes | memoryview] = []
        if work.known is not None:
            pieces.append(memoryview(work.known.packed)[: tokens * TOKEN_BYTES])
        if prefix is not None and not tokens:
            pieces.append(prefix.tobytes())
            tokens = len(prefix)
        for part, encoded in zip(work.parts, ids, strict=True):
            if position > (cuts[-1][0] if cuts else 0):
                cuts.append((position, tokens))
            pieces.append(encoded.tobytes())
            position += len(part)
            tokens += len(encoded)
        blocks = TokenBlocks(b"".join(pieces), salt, estimated_tokens, work.known, work.tokens)
        if work.hashes:
            self._remember(_Entry(work.text, blocks, cuts, work.hashes))
        return blocks

    def _shared_cuts(self, text: str, entry: _Entry) -> int:
        """How many of the entry's cuts lie in what both texts begin with, and are places to cut in both."""
        low, high = 0, len(entry.cuts)
        if text.startswith(entry.text):  # most texts have grown at their end
            return high
        probe = high
        while low < high:
            if text.startswith(entry.text[: entry.cuts[probe - 1][0]]):
                low = probe
            else:
                high = probe - 1
            probe = (low + high + 1) // 2
        # What follows the last one may differ. What follows those before it is shared.
        return low if not low or self._may_cut(text, entry.cuts[low - 1][0]) else low - 1

    def _may_cut(self, text: str, place: int) -> bool:
        if self._special is not None and self._special.match(text, place):
            return True
        return self._encoder.cuts_at_lines and _LINE_CUT.match(text, place - 1) is not None

    def _work(
        self,
        text: str,
        hashes: list[int],
        known: TokenBlocks | None,
        cuts: list[tuple[int, int]],
        start: int,
        tokens: int,
    ) -> Work:
        ends = [*self._cut(text, start), len(text)]
        parts = [text[begin:end] for begin, end in zip([start, *ends[:-1]], ends, strict=True) if end > begin]
        return Work(text, hashes, known if start else None, cuts, start, tokens, parts)

    def _cut(self, text: str, start: int) -> list[int]:
        """The places behind `start` at which this text may be cut."""
        special = self._special
        places = [] if special is None else [found.start() for found in special.finditer(text, start)]
        if not self._encoder.cuts_at_lines:
            return places
        cuts: list[int] = []
        last = start
        for place in [*places, len(text)]:
            while place - last > 2 * _CUT_EVERY and (found := _LINE_CUT.search(text, last + _CUT_EVERY, place - 1)):
                last = found.end()
                cuts.append(last)
            if place < len(text):
                cuts.append(place)
            last = place
        return cuts

    def _remember(self, entry: _Entry) -> None:
        if entry.size > self.max_bytes:
            return
        number = self._next = self._next + 1
        self._entries[number] = entry
        self.size_bytes += entry.size
        for one in entry.hashes:
            before = self._by_hash.get(one)
            if before == number:
                continue
            self._by_hash[one] = number
            entry.reachable += 1
            if before is not None:
                self._lose_hash(before)
        while self.size_bytes > self.max_bytes:
            self._forget(next(iter(self._entries)))

    def _lose_hash(self, number: int) -> None:
        entry = self._entries[number]
        entry.reachable -= 1
        if not entry.reachable:
            self._forget(number)

    def _forget(self, number: int) -> None:
        entry = self._entries.pop(number)
        self.size_bytes -= entry.size
        for one in entry.hashes:
            if self._by_hash.get(one) == number:
                del self._by_hash[one]
