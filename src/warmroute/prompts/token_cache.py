"""Tokenising a conversation again and again, at the price of what was added to it.

A text is cut where its tokens on both sides cannot depend on each other: before a special token, and before a line that
begins with a visible sign. What was tokenised before is remembered with its cuts; of a text that begins like it, only
what follows the last common cut is encoded. Texts are found again by the fingerprints of their prompts, and compared in
full.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from warmroute.prompts.prefix_store import PrefixStore
from warmroute.prompts.token_blocks import TOKEN_BYTES, TokenBlocks

_LINE_CUT = re.compile(r"\n(?=\S)")
_CUT_EVERY = 4096
"""Characters between two cuts at line ends."""
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


class _Known(NamedTuple):
    """A text with its tokens. `cuts`: places (in characters) and how many tokens come before them."""

    text: str
    blocks: TokenBlocks
    cuts: list[tuple[int, int]]

    @property
    def size(self) -> int:
        """Memory that this takes, roughly, in bytes."""
        return 2 * len(self.text) + self.blocks.tokens * (TOKEN_BYTES + _KEY_BYTES_PER_TOKEN)


class Work(NamedTuple):
    """What is left to do for a text: `parts` to encode, behind the `tokens` that `known` has before `start`."""

    text: str
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

    def plan(self, text: str, hashes: Sequence[int]) -> Work:
        """Look up what is known of a text, and cut what is left. `hashes` is the fingerprint of what it was made of."""
        found = self._store.find(hashes)
        if found is None:
            return self._work(text, hashes, None, [], 0, 0)
        _, known = found
        shared = self._shared_cuts(text, known)
        start, tokens = known.cuts[shared - 1] if shared else (0, 0)
        return self._work(text, hashes, known.blocks, known.cuts[:shared], start, tokens)

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

    def _shared_cuts(self, text: str, entry: _Known) -> int:
        """How many of the entry's cuts lie in what both texts begin with, and are places to cut in both."""
        low, high = 0, len(entry.cuts)
        if text.startswith(entry.text):  # most texts have grown at their end
            return high
        shared = 0  # characters; no part of the texts is compared twice unless they differ there
        while low < high:
            probe = (low + high + 1) // 2
            place = entry.cuts[probe - 1][0]
            if text.startswith(entry.text[shared:place], shared):
                low, shared = probe, place
            else:
                high = probe - 1
        # What follows the last one may differ. What follows those before it is shared.
        return low if not low or self._may_cut(text, entry.cuts[low - 1][0]) else low - 1

    def _may_cut(self, text: str, place: int) -> bool:
        if self._special is not None and self._special.match(text, place):
            return True
        return self._encoder.cuts_at_lines and _LINE_CUT.match(text, place - 1) is not None

    def _work(
        self,
        text: str,
        hashes: Sequence[int],
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
