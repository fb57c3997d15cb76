"""Where a worker's URL points to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """What it takes to connect to a worker and to address a request to it.

    `authority` is the Host field; `prefix` is the path of the URL without its last slash, put before every target.
    """

    host: str
    port: int
    tls: bool
    authority: bytes
    prefix: bytes

    @classmethod
    def of(cls, url: str) -> Address:
        """The address of `http[s]://host[:port][/path]`. ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not the URL of a worker: {url!r}")
        tls = parts.scheme == "https"
        port = parts.port if parts.port is not None else (443 if tls else 80)
        authority = parts.netloc.rpartition("@")[2].encode("ascii")
        return cls(parts.hostname, port, tls, authority, parts.path.rstrip("/").encode("ascii"))
