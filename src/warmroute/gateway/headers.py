"""Which header fields pass through the gateway, and what the framing fields mean. Pure functions over raw bytes.

Names keep their casing and order, values their bytes. Fields that belong to one connection only (RFC 9110, section
7.6.1, with those that a Connection field names) stay behind; so do those that the gateway writes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

from msgspec import Struct

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_CREDENTIALS = {b"authorization", b"x-api-key"}
_EXPLAIN = {b"x-warmroute-explain", b"x-warmroute-admin-key"}
_REQUEST_SPECIAL = (
    HOP_BY_HOP
    | _CREDENTIALS
    | _EXPLAIN
    | {b"content-length", b"expect", b"host", b"origin", b"traceparent", b"x-request-id"}
)
_RESPONSE_SPECIAL = HOP_BY_HOP | {
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"x-request-id",
    b"x-router-worker-url",
}
_CORS_PREFIX = b"access-control-"
_LONGEST_REQUEST_ID = 256
_LENGTH_LINE = re.compile(rb"^(content-length:[ \t]*)[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)
_JSON_LINE = re.compile(rb"^content-type:[ \t]*application/json", re.IGNORECASE | re.MULTILINE)
_RETRY_AFTER_LINE = re.compile(rb"^retry-after:", re.IGNORECASE | re.MULTILINE)
_CODING_LINE = re.compile(rb"^content-encoding:[ \t]*+(?!identity[ \t]*\r)", re.IGNORECASE | re.MULTILINE)


# Both heads are structs because each exchange makes one: it costs a third of a dataclass.


class RequestHead(Struct, frozen=True, gc=False):
    """What a request's header fields say. `forwarded` holds the lines that go upstream, each with its CRLF,
    `hosts` how many Host fields there are. `authorization` and `api_key` are the values of those fields.
    `explain` is None unless the request asks for its decision: then the admin key that it brings for that.
    `traceparent` is the value of that field, which goes upstream as well.
    """

    forwarded: bytes = b""
    content_length: int | None = None
    transfer_encoding: bytes | None = None
    expect_continue: bool = False
    request_id: bytes | None = None
    origin: bytes = b""
    hosts: int = 0
    authorization: bytes = b""
    api_key: bytes = b""
    explain: bytes | None = None
    traceparent: bytes = b""


class Framing(Enum):
    """How the end of a response body is told (RFC 9112, section 6.3)."""

    NONE = "no body"
    LENGTH = "content-length"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until the connection closes"


class ResponseHead(Struct, frozen=True, gc=False):
    """A worker's status line and header fields. `forwarded` holds the lines that go to the client, each with CRLF.

    `event_stream` says that the body is a server-sent event stream as it stands, not compressed.
    """

    status: int
    reason: bytes
    forwarded: bytes
    framing: Framing
    event_stream: bool


def read_request_head(headers: Iterable[Header], *, keeps_credentials: bool = False) -> RequestHead:
    """Read a request's header fields. The parser has checked their syntax, and that Content-Length is a number.

    With `keeps_credentials`, what the client shows to identify itself is for the router, and does not go upstream.
    """
    lines: list[bytes] = []
    named: set[bytes] | None = None
    length: int | None = None
    coding: bytes | None = None
    expect_continue = False
    request_id: bytes | None = None
    origin = b""
    hosts = 0
    authorization = api_key = admin_key = traceparent = b""
    explain = False
    for name, value in headers:
        key = name.lower()
        if key not in _REQUEST_SPECIAL:
            lines += (name, b": ", value, b"\r\n")
        elif key == b"content-length":
            length = int(value)
        elif key == b"host":
            hosts += 1
        elif key == b"connection":
            named = (named or set()) | connection_names(value)
        elif key == b"transfer-encoding":
            coding = value.lower() if coding is None else b"several"
        elif key == b"expect":
            expect_continue = value.lower() == b"100-continue"
        elif key == b"x-request-id":
            if request_id is None and 0 < len(value) <= _LONGEST_REQUEST_ID:
                request_id = value
        elif key == b"origin":
            origin = value
            lines += (name, b": ", value, b"\r\n")
        elif key == b"traceparent":
            traceparent = value
            lines += (name, b": ", value, b"\r\n")
        elif key in _CREDENTIALS:
            if key == b"authorization":
                authorization = value
            else:
                api_key = value
            if not keeps_credentials:
                lines += (name, b": ", value, b"\r\n")
        elif key == b"x-warmroute-explain":
            explain = value.lower() in (b"1", b"true")
        elif key == b"x-warmroute-admin-key":
            admin_key = value
    forwarded = b"".join(_without(lines, named) if named else lines)
    return RequestHead(
        forwarded,
        length,
        coding,
        expect_continue,
        request_id,
        origin,
        hosts,
        authorization,
        api_key,
        admin_key if explain else None,
        traceparent,
    )


def read_response_head(
    status: int, reason: bytes, headers: Iterable[Header], *, own_cors: bool = False
) -> ResponseHead:
    """Read a response's header fields. ValueError for a transfer coding other than chunked.

    With `own_cors` the gateway writes the CORS fields itself, and a worker's are left out.
    """
    lines: list[bytes] = []
    named: set[bytes] | None = None
    length: bytes | None = None
    coding: bytes | None = None
    event_stream = compressed = False
    for name, value in headers:
        key = name.lower()
        if key in _RESPONSE_SPECIAL:
            if key == b"content-type":
                event_stream = value[:17].lower() == b"text/event-stream"
            elif key == b"content-length":
                if value[:1] == b"0":  # as one number is spelt, so is it known again
                    value = value.strip(b" \t").lstrip(b"0") or b"0"
                length = value
                if status == 204:
                    continue
            elif key == b"content-encoding":
                compressed = value.lower() != b"identity"
            else:
                if key == b"connection":
                    named = (named or set()) | connection_names(value)
                elif key == b"transfer-encoding":
                    coding = value if coding is None else b"several"
                continue
        lines += (name, b": ", value, b"\r\n")
    if named or own_cors:
        lines = _without(lines, named or set(), _CORS_PREFIX if own_cors else None)
    framing = body_framing(status, coding, length)
    return ResponseHead(status, reason, b"".join(lines), framing, event_stream and not compressed)


def interim_fault(status: int, headers: Iterable[Header]) -> str:
    """Why a response with a status below 200 cannot be swallowed; empty when it can.

    It has no body (RFC 9110, section 15.2). A parser that believes its fields would take one from what follows.
    """
    if status < 100:
        return f"its status is {status}"
    if status == 101:
        return "it switches protocols unasked"
    for name, value in headers:
        key = name.lower()
        if key == b"transfer-encoding" or (key == b"content-length" and value.strip(b"0")):
            return "an interim response has a body"
    return ""


def is_compressed(head: ResponseHead) -> bool:
    """Whether the body is not what its content type says, but a coding of it."""
    return _CODING_LINE.search(head.forwarded) is not None


def is_json(head: ResponseHead) -> bool:
    """Whether the body is said to be JSON."""
    return _JSON_LINE.search(head.forwarded) is not None


def has_retry_after(head: ResponseHead) -> bool:
    """Whether the worker says when to come back."""
    return _RETRY_AFTER_LINE.search(head.forwarded) is not None


def with_length(head: ResponseHead, length: int) -> ResponseHead:
    """The same head for a body of another length; unchanged where none is declared."""
    forwarded = _LENGTH_LINE.sub(rb"\g<1>%d\r\n" % length, head.forwarded)
    return ResponseHead(head.status, head.reason, forwarded, head.framing, head.event_stream)


def without_length(head: ResponseHead) -> ResponseHead:
    """The same head for a body whose length is not known beforehand."""
    if head.framing is not Framing.LENGTH:
        return head
    forwarded = _LENGTH_LINE.sub(b"", head.forwarded)
    return ResponseHead(head.status, head.reason, forwarded, Framing.UNTIL_CLOSE, head.event_stream)


def body_framing(status: int, transfer_encoding: bytes | None, content_length: bytes | None) -> Framing:
    """How the body of a response to a POST ends: RFC 9112, section 6.3, rules 1 and 4 to 8.

    ValueError for a transfer coding that the gateway could not undo (rule 4).
    """
    if 100 <= status < 200 or status in (204, 304):
        return Framing.NONE
    if transfer_encoding is not None:
        if transfer_encoding.lower() != b"chunked":
            raise ValueError("transfer coding is not chunked")
        return Framing.CHUNKED
    if content_length is not None:
        return Framing.LENGTH
    return Framing.UNTIL_CLOSE


def connection_names(value: bytes) -> frozenset[bytes]:
    """The fields, in lower case, that a Connection field names, without those that stay behind anyway."""
    value = value.lower()
    if value in (b"keep-alive", b"close"):
        return frozenset()
    names = frozenset(token.strip() for token in value.split(b","))
    return names - HOP_BY_HOP - {b"", b"close", b"content-length"}


@lru_cache(maxsize=256)
def status_line(status: int, reason: bytes) -> bytes:
    """The status line for a client. A reason with control characters is left out."""
    if any(byte < 0x20 or byte == 0x7F for byte in reason):
        reason = b""
    return b"HTTP/1.1 %d %b\r\n" % (status, reason)


def render_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Header lines from text pairs. ValueError for a line break or NUL: no value may start a line of its own."""
    lines = [f"{name}: {value}" for name, value in headers]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("control character in a header")
    return b"".join(line.encode("latin-1") + b"\r\n" for line in lines)


def _without(lines: list[bytes], names: set[bytes], prefix: bytes | None = None) -> list[bytes]:
    """The same lines (name, colon, value, end; name, ...) without those of such a lower-case name or prefix."""
    kept: list[bytes] = []
    for start in range(0, len(lines), 4):
        key = lines[start].lower()
        if key not in names and (prefix is None or not key.startswith(prefix)):
            kept += lines[start : start + 4]
    return kept
