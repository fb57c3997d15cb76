"""Noticing that the host at the other end has vanished without a word."""

from __future__ import annotations

import asyncio
import socket

# After about a minute (sglang-router uses 30 s as well).
_KEEPALIVE_OPTIONS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system probe the other end of a TCP connection while nothing is sent."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
