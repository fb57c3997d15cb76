"""How many prompts a request brings."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

_LONGEST_COUNTED = 8 * 1024 * 1024
"""Bytes of a longer array are not taken apart: 64 MB of empty lists would become gigabytes of objects."""

_ARRAY_OF_PROMPTS = re.compile(rb'\[[ \t\n\r]*+["\[]')
_raw_list = msgspec.json.Decoder(list[Raw])


def batch_size(prompt: Raw | bytes) -> int | None:
    """How many prompts there are in an array of prompts; 0 when it is too long to be counted.

    None when it is one prompt: a text or an array of token ids. `prompt` is JSON text.
    """
    text = memoryview(prompt)
    if not _ARRAY_OF_PROMPTS.match(text):
        return None
    return len(_raw_list.decode(text)) if len(text) <= _LONGEST_COUNTED else 0
