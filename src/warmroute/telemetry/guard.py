"""What keeps a loop in the background alive: an unexpected error in one round is logged, and the next round comes."""

from __future__ import annotations

import logging
from types import TracebackType


class Guard:
    """`with guard:` around one round of a loop. The same error in a row is logged once, with its traceback.

    What is no Exception, such as a cancellation, passes.
    """

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what
        self._trouble = ""

    def __enter__(self) -> None:
        """Begin a round."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Swallow and log an Exception."""
        trouble = repr(error) if isinstance(error, Exception) else ""
        if trouble and trouble != self._trouble:
            self._logger.error("unexpected error in %s", self._what, exc_info=error)
        self._trouble = trouble
        return bool(trouble)
