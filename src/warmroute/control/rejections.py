"""What the log says of requests that are refused: an engine, for one, repeats its registration every five seconds."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 1024


class Rejections:
    """Logs a refusal once, and again when its reason changes or the engine was accepted in between.

    `what` begins the line. Engines are told apart by `who`, their URL or, if that cannot be read, the address they
    called from. The most that is remembered is bounded: what a flood of made-up names displaces is logged once more.
    """

    def __init__(self, what: str = "registration of") -> None:
        self._what = what
        self._reasons: dict[str, str] = {}

    def rejected(self, who: str, reason: str) -> None:
        """Log it, if it is news."""
        if self._reasons.pop(who, None) != reason:
            logger.warning("%s %s is refused: %s", self._what, who, reason)
        self._reasons[who] = reason
        if len(self._reasons) > _MOST_REMEMBERED:
            del self._reasons[next(iter(self._reasons))]

    def accepted(self, who: str) -> None:
        """The next refusal is news."""
        self._reasons.pop(who, None)
