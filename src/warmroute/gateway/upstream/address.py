"""Where a worker's URL points to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """What it takes to connect to a worker and to address a request to it; `authority` is the Host field."""

    host: str
    port: int
    authority: bytes

    @classmethod
    def of(cls, url: str) -> Address:
        """The address of `http://host[:port]`. ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"not the URL of a worker: {url!r}")
        port = parts.port if parts.port is not None else 80
        return cls(parts.hostname, port, parts.netloc.rpartition("@")[2].encode("ascii"))
