"""Telling a client of a server-sent event stream, in-band, that the stream has broken.

Wire format: WHATWG HTML, "Server-sent events". An event ends with an empty line; lines end with LF, CR or CRLF.
"""

from __future__ import annotations

import re

TAIL_BYTES = 32
"""How many of the last bytes of a stream tell whether its last event is finished, and whether it was the last."""

_ENDS_OF_EVENT = (b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\n\r", b"\r\n\r")


_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]*$")


def is_done(tail: bytes) -> bool:
    """Whether a stream of the OpenAI API that ends in `tail` says that it is complete."""
    return _DONE.search(tail[-TAIL_BYTES:]) is not None


def is_mid_event(tail: bytes) -> bool:
    """Whether a stream that ends in `tail` (all of it, or at least its last TAIL_BYTES) has an unfinished event."""
    return bool(tail) and not tail.endswith(_ENDS_OF_EVENT)


def error_event(error_body: bytes, tail: bytes) -> bytes:
    """The bytes that end a broken stream: the unfinished event is closed, then one `data:` event tells the error.

    `error_body` is one line of JSON. There is no `[DONE]` after it: a client must not take the stream for complete.
    """
    blank_line = b"\n\n" if is_mid_event(tail) else b""
    return blank_line + b"data: " + error_body + b"\n\n"
