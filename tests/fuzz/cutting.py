"""How fuzzed bytes are delivered: the first byte of an input says where the rest is cut."""

from __future__ import annotations

import re

WHOLE = 0
BY_MEANING = 255
"""Before every message and every chunk, as peers send them: what is known by its bytes is known from its begin only."""

_BEGINS = re.compile(rb"(?<=\r\n)(?=[0-9A-Fa-f]{1,4}\r\n)|(?=POST /|HTTP/1\.[01] \d)")


def pieces_of(data: bytes) -> tuple[bytes, list[bytes]]:
    """The message in an input, and the pieces in which it is to come. No piece is empty."""
    if not data:
        return b"", []
    step, message = data[0], data[1:]
    if step == WHOLE:
        pieces = [message]
    elif step == BY_MEANING:
        pieces = _BEGINS.split(message)
    else:
        pieces = [message[start : start + step] for start in range(0, len(message), step)]
    return message, [piece for piece in pieces if piece]
