"""Where a worker's URL points to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """What it takes to connect to a worker and to address a request to it.

    `lines` are the header lines that its requests begin with: Host and, where it wants a key, Authorization.
    """

    host: str
    port: int
    lines: bytes
    secure: bool = False

    @classmethod
    def of(cls, url: str, authorization: str = "") -> Address:
        """The address of `http://host[:port]`, or with https. ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"not the URL of a worker: {url!r}")
        port = parts.port if parts.port is not None else _DEFAULT_PORTS[parts.scheme]
        lines = f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
        if authorization:
            lines += f"Authorization: {authorization}\r\n"
        return cls(parts.hostname, port, lines.encode("ascii"), parts.scheme == "https")
