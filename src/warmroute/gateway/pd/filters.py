"""What may stand between a decode worker's answer and the client. Pure: pieces in, pieces out."""

from __future__ import annotations

from typing import Protocol

from warmroute.gateway.headers import ResponseHead

Passed = tuple[ResponseHead | None, bytes]
"""What may go on to the client now: the head, once, with or before the first bytes of the body."""

NOTHING: Passed = (None, b"")


class Filter(Protocol):
    """Takes an answer in the pieces in which it came."""

    def received(self, head: ResponseHead | None, body: bytes, complete: bool) -> Passed:
        """What may go on now that this has come; everything that was held back if `complete`."""

    def rest(self) -> bytes:
        """What was held back of an answer that has broken off while the client was getting it."""
