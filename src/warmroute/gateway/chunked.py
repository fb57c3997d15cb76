"""Chunks (RFC 9112, section 7.1) that are told without a parser, because they came whole.

A server writes a chunk as its size in lower-case hexadecimal, the data, and CRLF behind both, and hands it to the
system as one piece. So the length of what was read tells how it must begin if it is just that. What is cut, or has an
extension or trailers, is a parser's business. So is what ends within an event: what passes here ends with an event, so
that one which is spread over any number of reads is not forgotten in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_READ_BYTES = 2048
"""The longest read that is taken for a chunk, or some; the event for a token with its log probabilities is shorter."""
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

EVENT_END = b"\n\n\r\n"
"""How a chunk ends that ends with an event, as vLLM, SGLang and FastDeploy spell it."""
EVENT_ENDS = (EVENT_END, b"\r\n\r\n\r\n")
"""The same in either spelling of a line's end."""
_BEGINS_WITHOUT_END = BEGINS[len(EVENT_END) :]

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


def are_events(data: bytes) -> bool:
    """Whether it is whole chunks that could each be a read of its own, and end with an event; of MOST_READ_BYTES.

    In longer reads the parser is faster.
    """
    chunks = data.split(EVENT_END)
    if chunks.pop():
        return False
    for chunk in chunks:  # noqa: SIM110 - a generator would double the time
        if not chunk.startswith(_BEGINS_WITHOUT_END[len(chunk)]):
            return False
    return True


class ChunkPipe:
    """Takes whole chunks to a client whose answer is chunked as well: whoever writes a read of them counts and keeps.

    The last two reads are kept as they came: most streams are over before somebody looks at them.
    """

    __slots__ = ("before", "count", "last", "write")

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write
        self.count = 0
        self.before = self.last = b""

    def take(self) -> list[bytes]:
        """The data of the last two reads, or of fewer, oldest first; all is forgotten."""
        bodies = [_body(read) for read in (self.before, self.last) if read]
        self.before = self.last = b""
        self.count = 0
        return bodies


def _body(read: bytes) -> bytes:
    size = len(read)
    if size <= MOST_READ_BYTES and read.startswith(BEGINS[size]):
        return read[read.index(b"\n") + 1 : -2]
    return b"".join([chunk[chunk.index(b"\n") + 1 :] + b"\n\n" for chunk in read.split(EVENT_END)[:-1]])
