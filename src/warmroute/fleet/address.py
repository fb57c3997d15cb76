"""Where a worker listens: host and port, with one spelling for each place."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from warmroute.config.values import worker_url

# Letters, digits and inner hyphens (RFC 1123); underscores as well, which container networks use in names.
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")


@dataclass(frozen=True, slots=True)
class Address:
    """Host (IPv6 without brackets) and port of a worker, and whether it speaks TLS there."""

    host: str
    port: int
    secure: bool = False

    @property
    def id(self) -> str:
        """`host:port`, IPv6 in brackets: how the worker is called everywhere."""
        return f"{url_host(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """`http://host:port`, or with https."""
        return f"{self.scheme}://{self.id}"

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.secure else "http"


def parse_address(text: str) -> Address:
    """Read a URL or `host:port`; raises ValueError that says what is wrong with it."""
    parts = urlsplit(worker_url(text))
    host = parse_host(parts.hostname or "")
    return Address(host, parts.port or 0, parts.scheme == "https")


def parse_host(text: str) -> str:
    """An IPv4 or IPv6 literal (brackets allowed) or a host name, in canonical spelling; raises ValueError."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        literal = ipaddress.ip_address(bare)
    except ValueError:
        pass
    else:
        if bare != text and literal.version == 4:
            raise ValueError(f"is not a host: {text[:100]!r}")
        if "%" in bare:
            raise ValueError("must not be an IPv6 address with a zone")
        return str(literal)
    # A name that ends in a number is a mistyped IPv4 address (as in the URL standard), never a host name.
    last_label = text.rstrip(".").rpartition(".")[2]
    if len(text) > 253 or not _NAME.fullmatch(text) or last_label.isdigit():
        raise ValueError(f"is not a host: {text[:100]!r}")
    return text.lower()


def url_host(host: str) -> str:
    """The host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
