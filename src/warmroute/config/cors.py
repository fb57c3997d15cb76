"""Which browser origins may read an answer (the CORS protocol of the WHATWG Fetch standard).

Pure, so that the inference path and the control application follow one rule.
"""

from __future__ import annotations

from collections.abc import Sequence

ANY = "*"
ALLOWED_METHODS = ("GET", "POST", "DELETE", "OPTIONS")
# Beyond the headers that every browser exposes anyway.
EXPOSED_HEADERS = (
    "X-Request-Id",
    "X-Router-Worker-URL",
    "X-Router-Prefill-URL",
    "X-Router-Decode-URL",
    "X-Warmroute-Decision",
    "Retry-After",
)


def allow_origin(origins: Sequence[str], origin: str) -> str | None:
    """The value of Access-Control-Allow-Origin for a request from `origin`; None: send no CORS headers."""
    if not origin:
        return None
    if ANY in origins:
        return ANY
    return origin if origin in origins else None


def response_headers(origins: Sequence[str], origin: str) -> list[tuple[str, str]]:
    """The CORS headers of an answer other than a preflight's; empty when `origin` may not read it."""
    allowed = allow_origin(origins, origin)
    if allowed is None:
        return []
    headers = [
        ("Access-Control-Allow-Origin", allowed),
        ("Access-Control-Expose-Headers", ", ".join(EXPOSED_HEADERS)),
    ]
    if allowed != ANY:
        # A cache must not hand this answer to another origin.
        headers.append(("Vary", "Origin"))
    return headers
