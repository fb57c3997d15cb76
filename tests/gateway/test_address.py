"""Where a worker's URL points to."""

import pytest

from warmroute.gateway.upstream.address import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a:8000", Address("a", 8000, b"Host: a:8000\r\n")),
        ("http://a", Address("a", 80, b"Host: a\r\n")),
        ("http://a/", Address("a", 80, b"Host: a\r\n")),
        ("https://a", Address("a", 443, b"Host: a\r\n", secure=True)),
        ("http://[::1]:5", Address("::1", 5, b"Host: [::1]:5\r\n")),
        ("http://u:p@a:1", Address("a", 1, b"Host: a:1\r\n")),
    ],
)
def test_addresses(url, address):
    assert Address.of(url) == address


@pytest.mark.parametrize("url", ["a:8000", "http://a/x", "ftp://a", "http://", "http://a:x", "http://\xe9"])
def test_no_url_of_a_worker(url):
    with pytest.raises(ValueError):  # noqa: PT011 - urllib's own texts
        Address.of(url)


def test_a_key_for_the_worker_is_a_line_of_its_requests():
    assert Address.of("http://a:1", "Bearer k").lines == b"Host: a:1\r\nAuthorization: Bearer k\r\n"
