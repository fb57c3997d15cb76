"""The optional local tokenizer: a Hugging Face tokenizer.json, read by the `tokenizers` library."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class TokenizerError(Exception):
    """The local tokenizer cannot be used; the text says why and what to do."""


class LocalTokenizer:
    """Text to token ids, exactly as the file says, without special tokens, truncation or padding.

    Needs the extra `warmroute[tokenizer]`; without the option the library is never imported.
    """

    def __init__(self, path: str | Path) -> None:
        """Load the file. TokenizerError when the library is missing or the file cannot be used."""
        self._tokenizer = _load(Path(path))

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; TokenizerError for a text that is not valid Unicode."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise TokenizerError(f"the text cannot be tokenised: {error}") from error
        return ids


def _load(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TokenizerError("a local tokenizer needs the extra: pip install 'warmroute[tokenizer]'") from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for whatever is wrong with the file
        raise TokenizerError(f"tokenizer file {path} cannot be used: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
