"""Header and framing rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.gateway.headers import (
    HOP_BY_HOP,
    Framing,
    body_framing,
    connection_names,
    read_request_head,
    read_response_head,
    render_headers,
    status_line,
)

names = st.sampled_from([b"Accept", b"x-a", b"X-A", b"Cookie", b"X-Odd", b"Content-Type", b"authorization"])
values = st.binary(max_size=12).map(lambda raw: raw.translate(None, b"\r\n\0"))
end_to_end = st.lists(st.tuples(names, values), max_size=8)
hop = st.lists(
    st.tuples(st.sampled_from(sorted(HOP_BY_HOP - {b"transfer-encoding", b"connection"})), values), max_size=4
)


def lines(headers):
    return b"".join(b"%b: %b\r\n" % header for header in headers)


@given(end_to_end, hop, st.randoms())
def test_end_to_end_fields_pass_in_order_and_hop_by_hop_ones_do_not(headers, hops, rng):
    mixed = [*headers]
    for name, value in hops:
        mixed.insert(rng.randint(0, len(mixed)), (rng.choice([name, name.upper(), name.title()]), value))
    assert read_request_head(mixed).forwarded == lines(headers)
    assert read_response_head(200, b"OK", mixed).forwarded == lines(headers)


def test_a_request_s_own_fields():
    head = read_request_head(
        [
            (b"Host", b"router"),
            (b"Content-LENGTH", b"12"),
            (b"Expect", b"100-Continue"),
            (b"X-Request-ID", b"one"),
            (b"x-request-id", b"two"),
            (b"Origin", b"https://a"),
            (b"TraceParent", b"00-1-2-01"),
            (b"Accept", b"*/*"),
        ]
    )
    assert head.forwarded == b"Origin: https://a\r\nTraceParent: 00-1-2-01\r\nAccept: */*\r\n"
    assert head.traceparent == b"00-1-2-01"
    assert (head.content_length, head.expect_continue, head.request_id) == (12, True, b"one")
    assert head.origin == b"https://a"
    assert head.transfer_encoding is None


@pytest.mark.parametrize("value", [b"", b"x" * 257])
def test_an_unusable_request_id_is_replaced(value):
    head = read_request_head([(b"x-request-id", value)])
    assert (head.request_id, head.forwarded) == (None, b"")


def test_several_transfer_encodings_are_not_taken_for_chunked():
    twice = [(b"transfer-encoding", b"chunked"), (b"Transfer-Encoding", b"chunked")]
    assert read_request_head(twice).transfer_encoding != b"chunked"
    with pytest.raises(ValueError, match="chunked"):
        read_response_head(200, b"", twice)


def test_fields_named_by_connection_stay_behind():
    headers = [(b"A", b"1"), (b"Connection", b"close, a , B"), (b"b", b"2"), (b"c", b"3"), (b"Connection", b"C")]
    assert read_request_head(headers).forwarded == b""
    assert read_response_head(200, b"OK", headers).forwarded == b""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"keep-alive", set()),
        (b"Close", set()),
        (b"", set()),
        (b"close, TE, upgrade", set()),
        (b" X-Foo ,,keep-alive", {b"x-foo"}),
        (b"Content-Length", set()),
    ],
)
def test_connection_names(value, named):
    assert connection_names(value) == named


def test_what_the_gateway_writes_itself_is_taken_out_of_a_response():
    headers = [
        (b"X-Request-Id", b"theirs"),
        (b"x-router-worker-url", b"theirs"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Vary", b"Accept"),
    ]
    assert read_response_head(200, b"OK", headers).forwarded == lines(headers[2:])
    assert read_response_head(200, b"OK", headers, own_cors=True).forwarded == lines(headers[3:])


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"Content-Type", b"text/event-stream")], True),
        ([(b"content-type", b"Text/Event-Stream; charset=utf-8"), (b"content-encoding", b"identity")], True),
        ([(b"content-type", b"text/event-stream"), (b"Content-Encoding", b"gzip")], False),
        ([(b"content-type", b"application/json")], False),
        ([], False),
    ],
)
def test_event_stream(headers, expected):
    assert read_response_head(200, b"OK", headers).event_stream is expected


@pytest.mark.parametrize(
    ("status", "coding", "length", "framing"),
    [
        (204, None, None, Framing.NONE),
        (304, None, b"5", Framing.NONE),
        (204, b"chunked", None, Framing.NONE),
        (200, b"Chunked", None, Framing.CHUNKED),
        (200, b"chunked", b"5", Framing.CHUNKED),
        (500, None, b"0", Framing.LENGTH),
        (200, None, None, Framing.UNTIL_CLOSE),
    ],
)
def test_body_framing(status, coding, length, framing):
    """RFC 9112, section 6.3."""
    assert body_framing(status, coding, length) is framing


@pytest.mark.parametrize("coding", [b"gzip", b"gzip, chunked", b"chunked, gzip", b""])
def test_a_transfer_coding_that_cannot_be_undone(coding):
    with pytest.raises(ValueError, match="chunked"):
        body_framing(200, coding, None)


def test_a_204_has_no_length_and_a_304_may_have_one():
    length = [(b"Content-Length", b"5")]
    assert read_response_head(204, b"", length).forwarded == b""
    assert read_response_head(304, b"", length).forwarded == b"Content-Length: 5\r\n"


@given(st.binary(max_size=20))
def test_a_status_line_is_one_line(reason):
    line = status_line(200, reason)
    assert line.startswith(b"HTTP/1.1 200 ")
    assert line.endswith(b"\r\n")
    assert not any(byte < 0x20 for byte in line[:-2])


def test_render_headers():
    assert render_headers([("A", "b"), ("C", "d\xe9")]) == b"A: b\r\nC: d\xe9\r\n"
    for value in ("a\r\nB: c", "a\n", "a\r", "a\0"):
        with pytest.raises(ValueError, match="control character"):
            render_headers([("A", value)])


@pytest.mark.parametrize(
    ("told", "passed_on"), [(b"8", b"8"), (b"08", b"8"), (b"0", b"0"), (b"000", b"0"), (b"00 ", b"0"), (b"080", b"80")]
)
def test_a_length_is_passed_on_without_leading_zeros(told, passed_on):
    """As it is when a head is known by its bytes, and its number written anew."""
    head = read_response_head(200, b"OK", [(b"Content-Length", told)])
    assert head.forwarded == b"Content-Length: %b\r\n" % passed_on
    assert head.framing is Framing.LENGTH
