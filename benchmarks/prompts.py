"""Chat requests of an exact size that share prefixes as real traffic does.

Every body begins like those of its group (system prompt and earlier turns, byte for byte the same) and from a fresh
number on is like no other. So with every request a prefix index has something to find and something to learn.
"""

from __future__ import annotations

import itertools
import json
from random import Random

GROUPS = 32
MESSAGE_BYTES = 8 * 1024
"""Longer texts are cut into turns of this length: nobody sends 400 KB as one message."""

_MARK = "#" * 16
_SENTENCE = 'the cache of this "worker" holds what an earlier turn of\nthe same conversation has left there for us,\n'


class Prompts:
    """An endless supply of whole HTTP requests with `size` bytes of JSON each.

    `shared` is the part of the size that is common to a group; with 0 a prompt is unique from its first words on.
    """

    def __init__(self, size: int, *, shared: float = 0.5, stream: bool = False, seed: int = 1) -> None:
        rng = Random(seed)
        head = _http_head(size)
        bodies = [_body(size, shared, stream, rng) for _ in range(GROUPS if shared else 1)]
        self._parts = itertools.cycle([(head + before, after) for before, after in bodies])
        self._number = itertools.count(seed << 40)

    def __call__(self) -> bytes:
        """The next request, ready to be written."""
        before, after = next(self._parts)
        return b"%b%016x%b" % (before, next(self._number), after)


def _http_head(size: int) -> bytes:
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def _body(size: int, shared: float, stream: bool, rng: Random) -> tuple[bytes, bytes]:
    """The body's bytes before and after its number."""
    common = _turns(_text(int(size * shared), rng))
    own = _MARK + " " + _text(size, rng)
    excess = len(_encode(common + _turns(own), stream)) - size
    turns = common + _turns(own[:-excess])
    turns[-1] += "." * (size - len(_encode(turns, stream)))
    before, after = _encode(turns, stream).split(_MARK.encode())
    return before, after


def _text(length: int, rng: Random) -> str:
    words = rng.choices(_SENTENCE.split(" "), k=length // 4 + 1)
    return " ".join(words)[:length]


def _turns(text: str) -> list[str]:
    return [text[start : start + MESSAGE_BYTES] for start in range(0, len(text), MESSAGE_BYTES)]


def _encode(turns: list[str], stream: bool) -> bytes:
    roles = itertools.chain(["system"], itertools.cycle(["user", "assistant"]))
    messages = [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
    body = {"model": "tiny", "messages": messages, "max_tokens": 64, "stream": stream}
    return json.dumps(body, separators=(",", ":")).encode()
