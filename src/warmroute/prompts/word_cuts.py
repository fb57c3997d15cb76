"""Whether a tokenizer takes a text word by word: read from its tokenizer.json, because trying it out proves nothing.

The places are those between an ASCII letter and a space that another ASCII letter follows. There a token ends whatever
stands on either side, if the file says: byte-level BPE; texts split by a pattern that matches no letter with a space
behind it and looks at nothing before a match; no change of the text before that but NFC, as a space never composes; and
no added token that could lie across.
"""

from __future__ import annotations

from typing import Any

import msgspec

# Llama 3's and cl100k's pattern, and Qwen2's. GPT-2's is what ByteLevel splits by itself.
_BEFORE_DIGITS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_AFTER_DIGITS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = [_BEFORE_DIGITS + digits + _AFTER_DIGITS for digits in (r"\p{N}{1,3}", r"\p{N}")]
_SPLITS: list[object] = [
    {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False} for pattern in _PATTERNS
]


class _Model(msgspec.Struct):
    type: str = ""
    dropout: float | None = None


class _AddedToken(msgspec.Struct):
    content: str
    lstrip: bool = False
    rstrip: bool = False


class _Definition(msgspec.Struct):
    model: _Model
    pre_tokenizer: dict[str, Any] | None = None
    normalizer: dict[str, Any] | None = None
    added_tokens: list[_AddedToken] = []


def cuts_before_words(tokenizer_json: bytes) -> bool:
    """Whether no token depends on what is on the other side of such a place; False if that is not told."""
    try:
        definition = msgspec.json.decode(tokenizer_json, type=_Definition)
    except msgspec.MsgspecError:
        return False
    model, normalizer = definition.model, definition.normalizer
    return (
        model.type == "BPE"
        and not model.dropout
        and (normalizer is None or normalizer.get("type") == "NFC")
        and _splits(definition.pre_tokenizer)
        and not any(map(_may_lie_across, definition.added_tokens))
    )


def _splits(pre_tokenizer: dict[str, Any] | None) -> bool:
    if pre_tokenizer is None:
        return False
    if pre_tokenizer.get("type") != "Sequence":
        return _is_byte_level(pre_tokenizer) and pre_tokenizer.get("use_regex", True) is True
    match pre_tokenizer.get("pretokenizers"):
        case [dict() as first, dict() as second]:
            return first in _SPLITS and _is_byte_level(second)
    return False


def _is_byte_level(pre_tokenizer: dict[str, Any]) -> bool:
    return pre_tokenizer.get("type") == "ByteLevel" and pre_tokenizer.get("add_prefix_space") is False


def _may_lie_across(token: _AddedToken) -> bool:
    takes_spaces = token.lstrip or token.rstrip
    return " " in token.content or (takes_spaces and (token.content[:1].isalpha() or token.content[-1:].isalpha()))
