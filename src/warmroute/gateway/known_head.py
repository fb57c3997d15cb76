"""A head that has been read before, known again by its bytes.

The peer on a kept connection repeats itself: all that changes from one message to the next is, mostly, the number in
Content-Length. A head that equals one which the parser has taken, byte by byte but for the digits of that number, means
what that one meant, so it need not be parsed again.
"""

from __future__ import annotations

import re

from warmroute.gateway.headers import Framing, RequestHead, ResponseHead
from warmroute.prompts.body import Kind

_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)(?=[ \t]*\r\n)", re.IGNORECASE)
_FORWARDED_LENGTH = re.compile(rb"^content-length: (\d+)(?=\r\n)", re.IGNORECASE | re.MULTILINE)
_MOST_DIGITS = 12
"""Of a length that is recognised: less than a terabyte, which every limit on a body is below."""


class KnownHead:
    """The head of an HTTP/1.1 message, in two parts: before and after the digits of its Content-Length."""

    __slots__ = ("_after", "_after_size", "_before", "_before_size", "_last_end", "length")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._before_size = len(before)
        self._last_end = len(before) + _MOST_DIGITS + 1
        self._after = after
        self._after_size = len(after)
        self.length = 0
        """The number that the head had which `body_start` was asked about last, in bytes."""

    @classmethod
    def of(cls, data: bytes) -> KnownHead | None:
        """The head that `data` begins with. None if it is not whole, or has not exactly one Content-Length.

        The caller knows that a parser has taken it for the head of one message.
        """
        end = data.find(b"\r\n\r\n")
        head = data[: end + 4]
        lengths = list(_LENGTH_LINE.finditer(head))
        if end < 0 or len(lengths) != 1:
            return None
        first, last = lengths[0].span(1)
        return cls(head[:first], head[last:])

    def body_start(self, data: bytes) -> int:
        """Where the body begins in a message with this head (`length` is then set), or -1 for any other."""
        if data.startswith(self._before):
            end = data.find(b"\r", self._before_size, self._last_end)
            if end > 0:
                digits = data[self._before_size : end]
                if digits.isdigit() and data.startswith(self._after, end):
                    self.length = int(digits)
                    return end + self._after_size
        return -1


class KnownRequest:
    """The head of a request to an inference path, and what was made of it."""

    __slots__ = ("fields", "head", "kind", "target")

    def __init__(self, head: KnownHead, kind: Kind, fields: RequestHead, target: bytes) -> None:
        self.head = head
        self.kind: Kind = kind
        self.fields = fields
        """All but `content_length` holds for every request with this head."""
        self.target = target

    @classmethod
    def of(cls, data: bytes, kind: Kind, fields: RequestHead, target: bytes) -> KnownRequest | None:
        """Learn the head that `data` begins with. None if a request with it cannot be told by its head alone."""
        if fields.content_length is None or fields.transfer_encoding is not None or fields.expect_continue:
            return None
        head = KnownHead.of(data)
        return None if head is None else cls(head, kind, fields, target)


class KnownResponse:
    """The head of a good response, and what was made of it."""

    __slots__ = ("_after", "_before", "first", "head")

    def __init__(self, head: KnownHead, before: bytes, after: bytes, first: ResponseHead) -> None:
        self.head = head
        self._before = before
        self._after = after
        self.first = first
        """What was made of it at first: right but for the length, for whoever drops the answer."""

    @classmethod
    def of(cls, data: bytes, fields: ResponseHead) -> KnownResponse | None:
        """Learn the head that `data` begins with. None if it is not one of a 200 with a Content-Length."""
        if fields.status != 200 or fields.framing is not Framing.LENGTH:
            return None
        head = KnownHead.of(data)
        length = _FORWARDED_LENGTH.search(fields.forwarded)
        if head is None or length is None:
            return None
        first, last = length.span(1)
        return cls(head, fields.forwarded[:first], fields.forwarded[last:], fields)

    def fields(self) -> ResponseHead:
        """What to make of the head that was recognised last."""
        first = self.first
        forwarded = b"%b%d%b" % (self._before, self.head.length, self._after)
        return ResponseHead(200, first.reason, forwarded, first.framing, first.event_stream)


class KnownStream:
    """The head of a good response with a chunked body, and what was made of it."""

    __slots__ = ("fields", "head")

    def __init__(self, head: bytes, fields: ResponseHead) -> None:
        self.head = head
        self.fields = fields

    @classmethod
    def of(cls, data: bytes, fields: ResponseHead) -> KnownStream | None:
        """Learn the head that `data` begins with. None if it is not whole, or not one of a 200 in chunks.

        The caller knows that a parser has taken it for the head of one message. Parsers drop empty lines before one.
        """
        if fields.status != 200 or fields.framing is not Framing.CHUNKED or not data.startswith(b"HTTP/"):
            return None
        end = data.find(b"\r\n\r\n")
        return None if end < 0 else cls(data[: end + 4], fields)
