"""Where a worker's URL points to."""

import pytest

from warmroute.gateway.upstream.address import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a:8000", Address("a", 8000, False, b"a:8000", b"")),
        ("http://a", Address("a", 80, False, b"a", b"")),
        ("https://a/x/", Address("a", 443, True, b"a", b"/x")),
        ("http://[::1]:5", Address("::1", 5, False, b"[::1]:5", b"")),
        ("http://u:p@a:1", Address("a", 1, False, b"a:1", b"")),
    ],
)
def test_addresses(url, address):
    assert Address.of(url) == address


@pytest.mark.parametrize("url", ["a:8000", "ftp://a", "http://", "http://a:x", "http://\xe9"])
def test_no_url_of_a_worker(url):
    with pytest.raises(ValueError):  # noqa: PT011 - urllib's own texts
        Address.of(url)
