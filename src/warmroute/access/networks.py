"""Sets of networks that callers may come from: CIDR blocks, and words for the usual ones."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

LOOPBACK = "loopback"
PRIVATE = "private"
NONE = "none"
WORDS = {
    LOOPBACK: ("127.0.0.0/8", "::1/128"),
    # RFC 1918, RFC 4193, and link-local (RFC 3927, RFC 4291): what no router of the Internet passes on. The shared
    # space 100.64.0.0/10 is left out: on it a provider's other customers may be neighbours.
    PRIVATE: ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"),
    NONE: (),
}


class Networks:
    """Some networks; the text shows them as they were given."""

    __slots__ = ("_networks", "_text")

    def __init__(self, names: Iterable[str]) -> None:
        """Each name is a CIDR block, an address, or one of WORDS. Raises ValueError."""
        names = tuple(names)
        self._text = ", ".join(names) or NONE
        self._networks = tuple(network for name in names for network in parse_networks(name))

    def __str__(self) -> str:
        return self._text

    def __contains__(self, host: str) -> bool:
        """Whether an address is in one of them. What is no address is in none."""
        address = parse_peer(host)
        return address is not None and any(
            address in network for network in self._networks if network.version == address.version
        )


def parse_networks(name: str) -> tuple[Network, ...]:
    """The networks of one name. ValueError for what is neither a word, an address nor a CIDR block."""
    word = name.strip().lower()
    if word in WORDS:
        return tuple(ip_network(block) for block in WORDS[word])
    try:
        return (ip_network(name.strip()),)
    except ValueError as error:
        raise ValueError(
            f"{name!r} must be a CIDR block such as 10.1.0.0/16, or {', '.join(WORDS)} ({error})"
        ) from None


def parse_peer(host: str) -> IPv4Address | IPv6Address | None:
    """The address at the other end of a connection; IPv4 in IPv6 (a dual-stack socket shows it) counts as IPv4."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
