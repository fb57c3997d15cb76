"""What is refused before its body."""

import pytest

from warmroute.gateway.errors import BodyTooLarge, HeadTooLarge, MalformedRequest, TargetTooLong
from warmroute.gateway.headers import RequestHead
from warmroute.gateway.limits import refuse_head, refuse_target_and_headers


@pytest.mark.parametrize(
    ("target", "headers", "error"),
    [
        (b"/" * 16384, [], None),
        (b"/" * 16385, [], TargetTooLong),
        (b"/", [(b"a", b"b")] * 256, None),
        (b"/", [(b"a", b"b")] * 257, HeadTooLarge),
        (b"/", [(b"a", b"x" * (65536 - 6))], None),
        (b"/", [(b"a", b"x" * (65536 - 5))], HeadTooLarge),
    ],
)
def test_heads(target, headers, error):
    refusal = refuse_target_and_headers(target, headers)
    assert refusal is None if error is None else isinstance(refusal, error)


@pytest.mark.parametrize(
    ("head", "version", "error"),
    [
        (RequestHead(hosts=1), "1.1", None),
        (RequestHead(hosts=1), "1.0", None),
        (RequestHead(), "1.0", None),
        (RequestHead(), "1.1", MalformedRequest),
        (RequestHead(hosts=2), "1.1", MalformedRequest),
        (RequestHead(hosts=2), "1.0", MalformedRequest),
        (RequestHead(hosts=1), "2.0", MalformedRequest),
        (RequestHead(hosts=1), "0.9", MalformedRequest),
        (RequestHead(hosts=1, content_length=10), "1.1", None),
        (RequestHead(hosts=1, content_length=11), "1.1", BodyTooLarge),
        (RequestHead(hosts=1, transfer_encoding=b"chunked"), "1.1", None),
        (RequestHead(hosts=1, transfer_encoding=b"gzip"), "1.1", MalformedRequest),
        (RequestHead(hosts=1, transfer_encoding=b"chunked", content_length=0), "1.1", MalformedRequest),
    ],
)
def test_framing(head, version, error):
    refusal = refuse_head(head, version, 10)
    assert refusal is None if error is None else isinstance(refusal, error)
