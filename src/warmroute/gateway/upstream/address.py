"""Where a worker's URL points to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """What it takes to connect to a worker and to address a request to it.

    `lines` are the header lines that its requests begin with: Host and, where it wants a key, Authorization.
    """

    host: str
    port: int
    lines: bytes

    @classmethod
    def of(cls, url: str, authorization: str = "") -> Address:
        """The address of `http://host[:port]`. ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"not the URL of a worker: {url!r}")
        port = parts.port if parts.port is not None else 80
        lines = f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
        if authorization:
            lines += f"Authorization: {authorization}\r\n"
        return cls(parts.hostname, port, lines.encode("ascii"))
