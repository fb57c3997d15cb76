import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.address import Address, parse_address, parse_host


@pytest.mark.parametrize(
    ("text", "worker_id", "url"),
    [
        ("http://10.0.0.1:8000", "10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://10.0.0.1:8000/", "10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("10.0.0.1:8000", "10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://Engine-1.Pool.Local:8000", "engine-1.pool.local:8000", "http://engine-1.pool.local:8000"),
        ("http://engine_1:8000", "engine_1:8000", "http://engine_1:8000"),
        ("http://engine", "engine:80", "http://engine:80"),
        ("https://engine", "engine:443", "https://engine:443"),
        ("http://[::1]:8000", "[::1]:8000", "http://[::1]:8000"),
        ("[2001:DB8:0:0::1]:8000", "[2001:db8::1]:8000", "http://[2001:db8::1]:8000"),
    ],
)
def test_one_spelling_for_each_place(text, worker_id, url):
    address = parse_address(text)
    assert (address.id, address.url) == (worker_id, url)
    assert parse_address(address.url) == address
    assert parse_address(address.id).id == address.id


NO_ADDRESSES = (
    *("", "engine", "http://", "ftp://a:1", "http://a:1/v1", "http://u@a:1", "http://a:70000", "a:0"),
    *("::1:80", "http://300.1.1.1:80", "http://a b:80", "http://a..b:80", "http://-a:80", "http://[::1%25eth0]:80"),
)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_address(text)


@pytest.mark.parametrize(("text", "host"), [("::1", "::1"), ("[::1]", "::1"), ("0:0::1", "::1"), ("Host.", "host.")])
def test_hosts_alone(text, host):
    assert parse_host(text) == host


@pytest.mark.parametrize("text", ["", "[10.0.0.1]", "1.2.3", "1.2.3.4.5", "x" * 64, "a." * 200, "fe80::1%eth0", "ä"])
def test_what_is_no_host_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_host(text)


@given(st.ip_addresses(), st.integers(1, 65535))
def test_every_literal_goes_round(ip, port):
    address = Address(parse_host(str(ip)), port)
    assert parse_address(address.url) == parse_address(address.id) == address
