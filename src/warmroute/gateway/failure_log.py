"""One line for each request that failed, or was given to another worker because one failed.

At most one a second for each worker, since a worker that is down fails every request; the next line tells how many were
left out. A line holds what identifies the request, never what is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

from warmroute.scheduling.worker import Worker

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 1.0
SEE_ITS_LOG = "; that engine's log should tell why"
SEE_WORKERS = "; GET /workers shows what the router knows"


class _Silence:
    """No line before `until`; `left_out` counts those that there would have been."""

    __slots__ = ("left_out", "until")

    def __init__(self) -> None:
        self.until = float("-inf")
        self.left_out = 0


class FailureLog:
    """What the gateway tells operators of requests that went wrong. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._workers: WeakKeyDictionary[Worker, _Silence] = WeakKeyDictionary()
        self._nobody = _Silence()

    def failed(self, request_id: bytes, worker: Worker, reason: object) -> None:
        """The worker did not serve this request, or not to its end."""
        silence = self._workers.get(worker)
        if silence is None:
            silence = self._workers[worker] = _Silence()
        self._tell(silence, request_id, f"worker {worker.url}: {reason}{SEE_ITS_LOG}")

    def unserved(self, request_id: bytes, reason: object) -> None:
        """No worker was there to serve this request."""
        self._tell(self._nobody, request_id, f"{reason}{SEE_WORKERS}")

    def _tell(self, silence: _Silence, request_id: bytes, what: object) -> None:
        now = self._clock()
        if now < silence.until:
            silence.left_out += 1
            return
        more = f" ({silence.left_out} more since the last such line)" if silence.left_out else ""
        logger.warning("request %s failed: %s%s", request_id.decode("latin-1"), what, more)
        silence.until = now + SECONDS_BETWEEN_LINES
        silence.left_out = 0
