"""Of which tokenizers it is certain that they take a text word by word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warmroute.prompts.word_cuts import cuts_before_words

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def sequence(pattern: str = QWEN, **split: Any) -> dict[str, Any]:
    first = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False, **split}
    return {"type": "Sequence", "pretokenizers": [first, {**BYTE_LEVEL, "use_regex": False}]}


def definition(**changes: Any) -> bytes:
    told = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<|end|>", "lstrip": True, "rstrip": True, "special": True}],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "vocab": {}, "merges": []},
    }
    return json.dumps(told | changes).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence()},
        {"pre_tokenizer": sequence(QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1))},
        {"added_tokens": [{"content": "word"}]},
    ],
)
def test_those_whose_file_says_so(changes: dict[str, Any]):
    assert cuts_before_words(definition(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": {"type": "NFKC"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "_"}},
        {"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}},
        {"pre_tokenizer": {**BYTE_LEVEL, "use_regex": False}},
        {"pre_tokenizer": sequence(r"\p{L}+ \p{L}+")},
        {"pre_tokenizer": sequence(behavior="MergedWithPrevious")},
        {"pre_tokenizer": sequence(invert=True)},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": 1}},
        {"model": {"type": "Unigram"}},
        {"model": {"type": "BPE", "dropout": 0.1}},
        {"model": {}},
        {"added_tokens": [{"content": "New York"}]},
        {"added_tokens": [{"content": "<word", "rstrip": True}]},
        {"added_tokens": [{"content": "word>", "lstrip": True}]},
        {"added_tokens": 1},
    ],
)
def test_all_others_are_asked_for_every_word(changes: dict[str, Any]):
    assert not cuts_before_words(definition(**changes))


def test_a_file_that_is_none():
    assert not cuts_before_words(b"{")
