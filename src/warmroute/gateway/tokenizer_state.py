"""Whether a tokenizer works. A change is logged, a request is not."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)


class TokenizerState:
    """Told of every failure and success; `deadline` is in seconds."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self._failing = False

    def failed(self, error: Exception) -> None:
        """The tokenizer gave no tokens."""
        if not self._failing:
            self._failing = True
            reason = str(error) or f"no answer within {self.deadline:g} s"
            logger.warning(
                "tokenizer failed, falling back to bytes until it works again: %s; is it the right one, and "
                "--tokenizer-timeout-secs long enough?",
                reason,
            )

    def worked(self) -> None:
        """The tokenizer gave tokens."""
        if self._failing:
            self._failing = False
            logger.info("tokenizer works again")
