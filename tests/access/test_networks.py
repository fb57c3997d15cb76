import pytest

from warmroute.access.networks import Networks, parse_networks

USUAL = Networks(("loopback", "private"))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "fd00::1",
        "fe80::1%eth0",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
    ],
)
def test_what_is_private(host):
    assert host in USUAL


@pytest.mark.parametrize(
    "host",
    [
        "8.8.8.8",
        "172.32.0.1",
        "100.64.0.1",
        "192.0.2.1",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "localhost",
        "",
        "0.0.0.0",
        "::",
    ],
)
def test_what_is_not(host):
    assert host not in USUAL


def test_blocks_addresses_and_words():
    networks = Networks(("203.0.113.0/24", "2001:db8::/32", "198.51.100.7"))
    assert "203.0.113.9" in networks
    assert "2001:db8::9" in networks
    assert "198.51.100.7" in networks
    assert "198.51.100.8" not in networks
    assert "127.0.0.1" not in networks
    assert str(networks) == "203.0.113.0/24, 2001:db8::/32, 198.51.100.7"
    assert "127.0.0.1" not in Networks(("none",))
    assert "8.8.8.8" in Networks(("0.0.0.0/0",))
    assert "::1" not in Networks(("0.0.0.0/0",))


@pytest.mark.parametrize("name", ["10.0.0.1/8", "10.0.0.0/33", "everywhere", "", "10.0.0"])
def test_what_is_no_network(name):
    with pytest.raises(ValueError, match="must be a CIDR block"):
        parse_networks(name)
