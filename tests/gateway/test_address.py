"""Where a worker's URL points to."""

import pytest

from warmroute.gateway.upstream.address import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a:8000", Address("a", 8000, b"a:8000")),
        ("http://a", Address("a", 80, b"a")),
        ("http://a/", Address("a", 80, b"a")),
        ("http://[::1]:5", Address("::1", 5, b"[::1]:5")),
        ("http://u:p@a:1", Address("a", 1, b"a:1")),
    ],
)
def test_addresses(url, address):
    assert Address.of(url) == address


@pytest.mark.parametrize(
    "url", ["a:8000", "https://a", "http://a/x", "ftp://a", "http://", "http://a:x", "http://\xe9"]
)
def test_no_url_of_a_worker(url):
    with pytest.raises(ValueError):  # noqa: PT011 - urllib's own texts
        Address.of(url)
