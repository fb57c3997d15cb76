"""Tokenising a conversation again and again, at the price of what was added to it.

A text is cut where its tokens on both sides cannot depend on each other: before a special token, and before a line that
begins with a visible sign. What was tokenised before is remembered with its cuts; of a text that begins like it, only
what follows the last common cut is encoded. Texts are found again by the fingerprints of their prompts, and compared in
full, piece by piece as templates give them out.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from warmroute.prompts.pieces import Pieces
from warmroute.prompts.prefix_store import PrefixStore
from warmroute.prompts.token_blocks import TOKEN_BYTES, TokenBlocks

_LINE_CUT = re.compile(r"\n(?=\S)")
_CUT_EVERY = 4096
"""Characters between two cuts at line ends."""
_KEY_BYTES_PER_TOKEN = 4
"""Of a block key in every 16 tokens, roughly."""
_BYTES_PER_PIECE = 100
"""Beside its characters."""


class Encoder(Protocol):
    """What is needed of a tokenizer."""

    specials: Sequence[str]
    """The texts of its special tokens before which a text may be cut."""
    cuts_at_lines: bool
    """Whether it may be cut behind a line end that a visible sign follows."""

    def encode_parts(self, parts: Sequence[str], /) -> list[array[int]]:
        """The ids of each part, without special tokens added."""


class _Known(NamedTuple):
    """A text with its tokens. `cuts`: places (in characters) and how many tokens come before them."""

    text: Pieces
    blocks: TokenBlocks
    cuts: list[tuple[int, int]]

    @property
    def size(self) -> int:
        """Memory that this takes, roughly, in bytes."""
        text = 2 * len(self.text) + _BYTES_PER_PIECE * self.text.count
        return text + self.blocks.tokens * (TOKEN_BYTES + _KEY_BYTES_PER_TOKEN)


class Work(NamedTuple):
    """What is left to do for a text: `parts` to encode, behind the `tokens` that `known` has before `start`."""

    text: Pieces
    hashes: Sequence[int]
    known: TokenBlocks | None
    cuts: list[tuple[int, int]]
    start: int
    tokens: int
    parts: list[str]


class TokenCache:
    """Bounded by `max_bytes`: the texts that were used least recently go. Not to be used by two threads at once."""

    def __init__(self, encoder: Encoder, max_bytes: int) -> None:
        self._encoder = encoder
        self._store: PrefixStore[_Known] = PrefixStore(max_bytes)
        specials = "|".join(re.escape(one) for one in sorted(encoder.specials, key=len, reverse=True) if one)
        self._special = re.compile(specials) if specials else None

    @property
    def size_bytes(self) -> int:
        """Memory that is taken, roughly."""
        return self._store.size_bytes

    def plan(self, pieces: Sequence[str], hashes: Sequence[int]) -> Work:
        """Look up what is known of a text, and cut what is left. `hashes` is the fingerprint of what it was made of."""
        found = self._store.find(hashes)
        if found is None:
            text = Pieces(pieces)
            return Work(text, hashes, None, [], 0, 0, self._parts(text.since(0)))
        _, known = found
        same = known.text.begin_like(pieces)
        text = Pieces(pieces, known.text, same)
        shared = self._shared_cuts(text, known, known.text.end_of(same))
        start, tokens = known.cuts[shared - 1] if shared else (0, 0)
        blocks = known.blocks if start else None
        return Work(text, hashes, blocks, known.cuts[:shared], start, tokens, self._parts(text.since(start)))

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
        pieces: list[bytes] = []
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
        known = _Known(work.text, blocks, cuts)
        self._store.put(work.hashes, known, known.size)
        return blocks

    def _shared_cuts(self, text: Pieces, entry: _Known, shared: int) -> int:
        """How many of the entry's cuts lie in what both texts begin with, and are places to cut in both.

        They are known to share so many characters; what follows is compared.
        """
        low, high = bisect_left(entry.cuts, (shared + 1, 0)), len(entry.cuts)
        # From the sign before the last cut on, which tells whether it is one.
        begin = max(0, entry.cuts[low - 1][0] - 1) if low else 0
        new, old = text.since(begin), entry.text.since(begin)
        if new.startswith(old):  # most texts have grown at their end
            return high
        same = 0  # characters from there; no part of the texts is compared twice unless they differ there
        while low < high:
            probe = (low + high + 1) // 2
            place = entry.cuts[probe - 1][0] - begin
            if new.startswith(old[same:place], same):
                low, same = probe, place
            else:
                high = probe - 1
        # What follows the last one may differ. What follows those before it is shared.
        return low if not low or self._may_cut(new, entry.cuts[low - 1][0] - begin) else low - 1

    def _may_cut(self, text: str, place: int) -> bool:
        if self._special is not None and self._special.match(text, place):
            return True
        return self._encoder.cuts_at_lines and _LINE_CUT.match(text, place - 1) is not None

    def _parts(self, text: str) -> list[str]:
        ends = [*self._cut(text), len(text)]
        return [text[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True) if end > begin]

    def _cut(self, text: str) -> list[int]:
        """The places at which this text may be cut."""
        special = self._special
        places = [] if special is None else [found.start() for found in special.finditer(text)]
        if not self._encoder.cuts_at_lines:
            return places
        cuts: list[int] = []
        last = 0
        for place in [*places, len(text)]:
            while place - last > 2 * _CUT_EVERY and (found := _LINE_CUT.search(text, last + _CUT_EVERY, place - 1)):
                last = found.end()
                cuts.append(last)
            if place < len(text):
                cuts.append(place)
            last = place
        return cuts
