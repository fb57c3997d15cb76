"""Encoding short texts from words that were encoded before: taking a text apart costs a tokenizer most of its time.

Only where a tokenizer takes texts word by word (`prompts.word_cuts`).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import chain

from warmroute.prompts.tokenizer import LocalTokenizer

_CUT = re.compile(r"(?<=[A-Za-z])(?= [A-Za-z])")
_LONGEST = 24
"""Characters of a word, with what stands around it up to the next cut, that is remembered."""
_MOST_WORDS = 32 * 1024


class KnownWords:
    """Bounded by a number of words. Not to be used by two threads at once."""

    def __init__(self, tokenizer: LocalTokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, array[int]] = {}

    def encode_parts(self, parts: Sequence[str]) -> list[array[int]]:
        """As the tokenizer does it."""
        if not self._tokenizer.cuts_before_words:
            return self._tokenizer.encode_parts(parts)
        texts = [_CUT.split(part) for part in parts]
        known = self._known
        missing = list({word for words in texts for word in words if word not in known})
        found: dict[str, array[int]] = known
        if missing:
            new = dict(zip(missing, self._tokenizer.encode_parts(missing), strict=True))
            found = {word: new[word] if word in new else known[word] for words in texts for word in words}
            self._remember({word: ids for word, ids in new.items() if len(word) <= _LONGEST})
        return [array("I", chain.from_iterable([found[word] for word in words])) for words in texts]

    def _remember(self, words: dict[str, array[int]]) -> None:
        if len(self._known) + len(words) > _MOST_WORDS:
            self._known.clear()
        self._known.update(words)
