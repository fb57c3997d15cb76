"""How fuzzed bytes are delivered: the first byte of an input says where the rest is cut."""

from __future__ import annotations


def pieces_of(data: bytes) -> tuple[bytes, list[bytes]]:
    """The message in an input, and the pieces in which it is to come. No piece is empty."""
    if not data:
        return b"", []
    step, message = data[0], data[1:]
    if step == 0 or not message:
        return message, [message] if message else []
    return message, [message[start : start + step] for start in range(0, len(message), step)]
