"""How much of a request is read, beyond max-body-bytes, and what is refused before its body."""

from __future__ import annotations

from collections.abc import Collection

from warmroute.gateway.errors import (
    BodyTooLarge,
    GatewayError,
    HeadTooLarge,
    MalformedRequest,
    TargetTooLong,
)
from warmroute.gateway.headers import Header, RequestHead

MAX_TARGET_BYTES = 16 * 1024
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_PIPELINED = 128
"""Requests of one connection that may wait for their turn; the connection closes after that many."""
MAX_HELD_BYTES = 64 * 1024
"""Bytes of later requests that are read while one is answered."""
MAX_BODY_PIECES = 256
"""Pieces of a body that are kept as they came, before they are made one."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused request is read and dropped, so that the refusal is not lost in a reset."""
SECOND_LOOK_SECONDS = 0.02
"""How long after a connection was found unused it is closed: what came while the router was busy is read before."""
LAST_CHANCE_SECONDS = 1.0
"""How long a connection is kept for another request after a stream on it has broken off."""


def refuse_target_and_headers(target: bytes, headers: Collection[Header]) -> GatewayError | None:
    """Whether a complete head is larger than the gateway takes."""
    size = len(target) + sum(len(name) + len(value) + 4 for name, value in headers)
    if len(target) > MAX_TARGET_BYTES or size > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS:
        return refuse_head_size(target)
    return None


def refuse_head_size(target: bytes) -> GatewayError:
    """What to say of a head that is too large, whether it is complete or not."""
    if len(target) > MAX_TARGET_BYTES:
        return TargetTooLong(f"The request target is longer than {MAX_TARGET_BYTES} bytes")
    return HeadTooLarge(f"The header section is larger than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} fields")


def refuse_head(head: RequestHead, version: str, max_body_bytes: int) -> GatewayError | None:
    """What is wrong with a request that can be told from its head, if anything."""
    if version not in ("1.1", "1.0"):
        return MalformedRequest(f"HTTP/{version} is not supported")
    if head.hosts > 1 or (not head.hosts and version == "1.1"):
        return MalformedRequest("There must be one Host header field")  # RFC 9112, section 3.2
    if head.transfer_encoding is not None:
        if head.content_length is not None:
            return MalformedRequest("Both Content-Length and Transfer-Encoding are given")
        if head.transfer_encoding != b"chunked":
            return MalformedRequest("Only the transfer coding chunked is supported")
    if head.content_length is not None and head.content_length > max_body_bytes:
        return BodyTooLarge(max_body_bytes)
    return None
