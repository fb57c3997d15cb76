"""Peers and requests for the tests of dialects."""

from typing import Any

from warmroute.engines.dialect import Request
from warmroute.engines.peer import Peer
from warmroute.prompts.body import Kind


def peer(host: str = "10.0.0.1", port: int = 8000, **told: Any) -> Peer:
    return Peer(f"http://{host}:{port}", host, port, **told)


def request(body: bytes, kind: Kind = "chat", *, stream: bool = False, attempt: int = 0) -> Request:
    return Request(body, kind, stream, id="made-once", attempt=attempt)
