"""Which browser origins may call the router. The pure rule; the control app and the gateway both follow it."""

from __future__ import annotations

from collections.abc import Collection

# What a script of another origin may read besides the safelisted headers.
EXPOSED_HEADERS = ("x-request-id", "x-router-worker-url")
PREFLIGHT_MAX_AGE_SECONDS = 3600


def cors_headers(allowed_origins: Collection[str], origin: bytes | None) -> list[tuple[bytes, bytes]]:
    """The response headers that let `origin` (the request's Origin header) read an answer.

    An answer that names an origin varies with it, and so does one that was given to none; with `*` it does not.
    Empty when CORS is off (no allowed origins) or the request has no Origin header. Credentials are never allowed.
    """
    if not allowed_origins or origin is None:
        return []
    exposed = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())
    if "*" in allowed_origins:
        return [(b"access-control-allow-origin", b"*"), exposed]
    if origin.decode("latin-1") in allowed_origins:
        return [(b"access-control-allow-origin", origin), exposed, (b"vary", b"Origin")]
    return [(b"vary", b"Origin")]
