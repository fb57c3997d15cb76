"""The optional local tokenizer: a Hugging Face tokenizer.json, read by the `tokenizers` library."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warmroute.prompts.word_cuts import cuts_before_words

_SAMPLE = (
    "A line.\n\n  def f(x):\n\treturn x\n# 3.14\r\n\n- \u4f60\u597d\u3002\nna\xefve \u201cquotes\u201d\n{}\n  \nend \n"
    "<a>\n12 345\n'tis\n.\n"
)
"""Lines of many kinds, to see whether a tokenizer takes them one by one."""


class TokenizerError(Exception):
    """The local tokenizer cannot be used; the text says why and what to do."""


class LocalTokenizer:
    """Text to token ids, exactly as the file says, without truncation or padding.

    Needs the extra `warmroute[tokenizer]`; without the option the library is never imported. `specials` are the special
    tokens before which a text may be cut: what comes before one does not change what comes after it. `cuts_at_lines`
    tells the same of a line that begins with a visible sign; this is tried out. `cuts_before_words` tells it of the
    spaces between words of ASCII letters.
    """

    def __init__(self, path: str | Path) -> None:
        """Load the file. TokenizerError when the library is missing or the file cannot be used."""
        self._tokenizer = _load(Path(path))
        self.cuts_before_words = cuts_before_words(Path(path).read_bytes())
        added = list(self._tokenizer.get_added_tokens_decoder().values())
        # Those that take the white space before them, or look at the sign before them or behind, reach across a cut.
        takes, looks = any(token.lstrip for token in added), any(token.single_word for token in added)
        self.specials: Sequence[str] = [one.content for one in added if one.special and not one.lstrip and not looks]
        self.cuts_at_lines = not takes and self._takes_lines_one_by_one()
        plain, whole = self.encode("a"), self._tokenizer.encode("a", add_special_tokens=True).ids
        self.prefix: Sequence[int] | None = None
        """The ids that it puts before a text when it adds special tokens; None if it does more than that."""
        if whole[len(whole) - len(plain) :] == plain:
            self.prefix = whole[: len(whole) - len(plain)]

    def encode(self, text: str) -> list[int]:
        """The token ids of a text without special tokens; TokenizerError for a text that is not valid Unicode."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise TokenizerError(f"the text cannot be tokenised: {error}") from error
        return ids

    def encode_parts(self, parts: Sequence[str]) -> list[array[int]]:
        """The ids of several texts, each by itself. TokenizerError as for `encode`."""
        try:
            encodings = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise TokenizerError(f"the text cannot be tokenised: {error}") from error
        return [array("I", encoding.ids) for encoding in encodings]

    def _takes_lines_one_by_one(self) -> bool:
        lines = _SAMPLE.splitlines(keepends=True)
        # Only a line that begins with a visible sign is a place to cut at.
        parts: list[str] = []
        for line in lines:
            if parts and line[:1].isspace():
                parts[-1] += line
            else:
                parts.append(line)
        return [one for part in parts for one in self.encode(part)] == self.encode(_SAMPLE)


def _load(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TokenizerError("a local tokenizer needs the extra: pip install 'warmroute[tokenizer]'") from error
    # For a few hundred tokens, waking up the library's own threads costs more than encoding.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for whatever is wrong with the file
        raise TokenizerError(f"tokenizer file {path} cannot be used: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
