"""Chunks (RFC 9112, section 7.1) that are told without a parser, because they came whole.

A server writes a chunk as its size in lower-case hexadecimal, the data, and CRLF behind both, and hands it to the
system as one piece. So the length of what was read tells how it must begin if it is just that. What is cut, or has an
extension or trailers, is a parser's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_READ_BYTES = 2048
"""The longest read that is taken for a chunk; the event for a token with its log probabilities is shorter."""
LEAST_READ_BYTES = 40
"""The shortest. So the end of a stream, where its last event shows, never gets lost between two crumbs."""

_NO_CHUNK = bytes(MOST_READ_BYTES + 1)
"""Longer than any read that is looked at, so none begins with it, whatever it holds."""


def _begins_of_chunks() -> tuple[bytes, ...]:
    begins = [_NO_CHUNK] * (MOST_READ_BYTES + 1)
    for size in range(1, MOST_READ_BYTES):
        begin = b"%x\r\n" % size
        length = len(begin) + size + 2
        if LEAST_READ_BYTES <= length <= MOST_READ_BYTES:
            begins[length] = begin
    return tuple(begins)


BEGINS = _begins_of_chunks()
"""By the length of a read: how it begins if it is one whole chunk. Such a one ends in CRLF, too."""

LAST_CHUNK = b"0\r\n\r\n"
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")


def whole_chunks(data: bytes) -> tuple[bytes, bool] | None:
    """The body in some whole chunks, and whether the last one has come. None if `data` is anything else."""
    pieces: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        line = _SIZE_LINE.match(data, at)
        if line is None:
            return None
        size = int(line[1], 16)
        begin = line.end()
        at = begin + size + 2
        if at > end or data[at - 2 : at] != b"\r\n":
            return None
        if not size:
            return (b"".join(pieces), True) if at == end else None
        pieces.append(data[begin : at - 2])
    return b"".join(pieces), False


class ChunkPipe:
    """Takes whole chunks to a client whose answer is chunked as well: whoever writes one counts and keeps it.

    The last two are kept as they came: most streams are over before somebody looks at them.
    """

    __slots__ = ("before", "count", "last", "write")

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write
        self.count = 0
        self.before = self.last = b""

    def take(self) -> list[bytes]:
        """The data of the last two chunks, or of fewer, oldest first; all is forgotten."""
        chunks = [chunk[chunk.index(b"\n") + 1 : -2] for chunk in (self.before, self.last) if chunk]
        self.before = self.last = b""
        self.count = 0
        return chunks
