"""How near the router is to its limit of open files, so that it can say so instead of failing.

Without this the system closes new connections without a word, and no probe of a worker gets through. A part of the
limit is therefore kept back. Where only that is left, a new connection is surplus: it gets 503 for an inference
request, but may ask for health or metrics. Where half of it is gone, nothing new is taken or opened.

Counted is what the router opens itself; what else is open is estimated, at the start and by the size of the fleet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

_SHARE_KEPT = 20
_LEAST_KEPT = 16
_MOST_KEPT = 512
_FILES_PER_WORKER = 2
_SECONDS_BETWEEN_LINES = 30.0


class Descriptors:
    """`limit` is that of open files, 0 for none; `base` of them are open for other things than connections.

    `members` tells how many workers there are to be probed and polled. `clients` and `upstream` are connections.
    """

    def __init__(self, limit: int, base: int, members: Callable[[], int], clock: Callable[[], float]) -> None:
        self.clients = 0
        self.upstream = 0
        kept = min(max(limit // _SHARE_KEPT, _LEAST_KEPT), _MOST_KEPT, limit // 4)
        self._limit = limit
        self._base = base
        self._members = members
        self._clock = clock
        self._short_from = limit - kept
        self._exhausted_from = limit - kept // 2
        self._silent_until = float("-inf")

    @property
    def used(self) -> int:
        """Open files, as far as they are known."""
        return self._base + self.clients + self.upstream + _FILES_PER_WORKER * self._members()

    @property
    def is_short(self) -> bool:
        """Whether only what is kept back is left. Logged, but not each time."""
        used = self.used
        if not self._limit or used < self._short_from:
            return False
        now = self._clock()
        if now >= self._silent_until:
            self._silent_until = now + _SECONDS_BETWEEN_LINES
            logger.warning(
                "about %d of %d open files are in use (%d clients, %d connections to workers): new requests get 503; "
                "raise the limit with ulimit -n or LimitNOFILE",
                used,
                self._limit,
                self.clients,
                self.upstream,
            )
        return True

    @property
    def is_exhausted(self) -> bool:
        """Whether half of what is kept back is gone, too."""
        return bool(self._limit) and self.used >= self._exhausted_from

    def __str__(self) -> str:
        return f"about {self.used} of {self._limit} open files are in use"
