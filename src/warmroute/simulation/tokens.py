"""Text to tokens: four characters are one token.

A prompt is kept as packed token ids, four bytes each, little-endian. The id of four ASCII characters is those four
bytes, so encoding plain text is one copy. Four characters of which one is not ASCII get a hash with the top bit set, as
do the markers of the chat template; text can therefore never forge a marker.

Every piece of text is padded with spaces to whole tokens, and an answer is made of four-character words. So the tokens
of an answer are the same whether the engine has just generated them or finds them in the next turn's `messages`, and a
conversation that grows keeps its prefix, answers included.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xxhash import xxh3_64_intdigest, xxh32_intdigest

TOKEN_BYTES = 4
CHARS_PER_TOKEN = 4
MAX_TOKEN_ID = 2**32 - 1

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SPECIAL = 0x8000_0000
_MASK_64 = 2**64 - 1

_WORDS = tuple(f"{first}{vowel}{last} " for first in "bdklmrst" for vowel in "aiou" for last in "nr")


def encode_text(text: str) -> bytes:
    """Packed token ids of `text`; the last token is padded with spaces."""
    padded = text + " " * (-len(text) % CHARS_PER_TOKEN)
    if padded.isascii():
        return padded.encode("ascii")
    packed = bytearray()
    done = 0
    for match in _NOT_ASCII.finditer(padded):
        start = match.start() - match.start() % CHARS_PER_TOKEN
        if start < done:
            continue
        packed += padded[done:start].encode("ascii")
        packed += _hashed_id(padded[start : start + CHARS_PER_TOKEN])
        done = start + CHARS_PER_TOKEN
    packed += padded[done:].encode("ascii")
    return bytes(packed)


def _hashed_id(text: str) -> bytes:
    token_id = xxh32_intdigest(text.encode("utf-8", "surrogatepass")) | _SPECIAL
    return token_id.to_bytes(TOKEN_BYTES, "little")


def pack_ids(ids: Sequence[int]) -> bytes:
    """Packed form of token ids from 0 to `MAX_TOKEN_ID`; others raise struct.error."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack_ids(packed: bytes) -> list[int]:
    """The token ids of a packed prompt."""
    return list(struct.unpack(f"<{len(packed) // TOKEN_BYTES}I", packed))


def encode_chat(messages: Sequence[Mapping[str, Any]], tools: object = None) -> bytes:
    """Packed prompt of a chat: tools, then each message between two markers, then the marker that opens the answer."""
    packed = bytearray()
    if tools:
        packed += _hashed_id("<tools>") + encode_text(_compact(tools)) + _END
    for message in messages:
        packed += _hashed_id(f"<{message.get('role')}>")
        for text in _message_texts(message):
            packed += encode_text(text)
        packed += _END
    packed += _hashed_id("<assistant>")
    return bytes(packed)


def _message_texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            is_text = isinstance(part, dict) and isinstance(part.get("text"), str)
            yield part["text"] if is_text else _compact(part)
    if message.get("tool_calls"):
        yield _compact(message["tool_calls"])


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_END = _hashed_id("<end>")


def block_hashes(packed: bytes, block_size: int, parent: int) -> list[int]:
    """Chained hashes of the whole blocks in `packed`; `parent` is the hash that the first block follows.

    A hash stands for its block and for everything before it, as in real engines.
    """
    step = block_size * TOKEN_BYTES
    hashes = []
    for end in range(step, len(packed) + 1, step):
        parent = xxh3_64_intdigest(packed[end - step : end], seed=parent)
        hashes.append(parent)
    return hashes


def answer_words(seed: int) -> Iterator[str]:
    """The endless answer that belongs to `seed`: one four-character word a token, by a 64-bit congruential generator.

    The multiplier and increment are Knuth's MMIX constants; the top six bits choose the word.
    """
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & _MASK_64
        yield _WORDS[state >> 58]
