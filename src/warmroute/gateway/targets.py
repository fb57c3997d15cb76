"""Request targets: which are inference paths, and which forms are taken (RFC 9112, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import httptools

from warmroute.gateway.headers import Header
from warmroute.prompts.body import Kind

INFERENCE_PATHS: Mapping[bytes, Kind] = {
    b"/v1/chat/completions": "chat",
    b"/v1/completions": "completions",
    b"/generate": "other",
    b"/v1/embeddings": "other",
    b"/v1/messages": "other",
    b"/v1/rerank": "other",
    b"/v1/responses": "other",
    b"/tokenize": "other",
}
"""Path, exactly as it is sent -> which fields of the body are the prompt. Only POST is relayed."""


def inference_kind(target: bytes) -> Kind | None:
    """The kind of request that a target in origin form asks for; None when it is no inference path."""
    kind = INFERENCE_PATHS.get(target)
    if kind is None and b"?" in target:
        kind = INFERENCE_PATHS.get(target.partition(b"?")[0])
    return kind


def origin_form(target: bytes) -> bytes:
    """Path and query of a target; the absolute form counts by them. ValueError for any other form."""
    if target.startswith(b"/"):
        return target
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise ValueError("The request target is not a path or URL") from error
    if not url.host or (url.schema or b"").lower() not in (b"http", b"https"):
        raise ValueError("The request target is not a path or URL")
    path = url.path or b"/"
    return path if url.query is None else b"%b?%b" % (path, url.query)


@lru_cache(maxsize=64)
def shown_path(target: bytes) -> str:
    """A target as logs show it: without its query, which may hold a key."""
    return target.partition(b"?")[0].decode("latin-1")


def without_upgrade(method: bytes, target: bytes, version: str, headers: Iterable[Header]) -> bytes:
    """The head of a request as it would be had it not asked for another protocol (RFC 9110, section 7.8)."""
    lines = [b"%b %b HTTP/%b\r\n" % (method, target, version.encode("ascii"))]
    for name, value in headers:
        key = name.lower()
        if key == b"connection":
            value = b",".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")
        if key != b"upgrade":
            lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join((*lines, b"\r\n"))
