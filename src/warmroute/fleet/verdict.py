"""How one attempt of a request ended for the worker that got it: what the data plane tells the fleet."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """One word for each way in which an attempt can end. Client errors and back-pressure are nobody's fault."""

    OK = "ok"
    """A whole, good answer."""
    REFUSED = "refused a connection"
    """Nobody accepts connections there."""
    CONNECT_TIMEOUT = "did not accept a connection in time"
    LOST = "lost a request"
    """Reset, early close, first-byte or silence timeout, an answer that is no HTTP."""
    SERVER_ERROR = "answered a server error"
    """500, 502, 503 or 504 that is not back-pressure."""
    BROKEN_STREAM = "broke a stream"
    NEUTRAL = "neutral"
    """Says nothing about the worker: 4xx, 429, the client left."""


UNREACHABLE = frozenset({Verdict.REFUSED, Verdict.CONNECT_TIMEOUT})
"""The worker gets no request before it has passed a probe."""

FAILURES = frozenset({Verdict.LOST, Verdict.SERVER_ERROR, Verdict.BROKEN_STREAM})
"""The worker took the request and did not serve it."""
