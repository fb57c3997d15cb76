"""Which idle connection is reused, and which are closed. Decisions only: the caller closes what it is given."""

from __future__ import annotations

from typing import Generic, TypeVar

C = TypeVar("C")


class IdleConnections(Generic[C]):
    """The idle connections to one worker, the one used last first out, so that surplus ones grow old and go.

    `timeout` in seconds, `limit` in connections; a timeout of 0 keeps none. Times are handed in and never run back.
    """

    __slots__ = ("_entries", "_limit", "_timeout")

    def __init__(self, timeout: float, limit: int) -> None:
        self._entries: dict[C, float] = {}  # since when, oldest first
        self._timeout = timeout
        self._limit = limit if timeout > 0 else 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, connection: C, now: float) -> C | None:
        """Keep `connection`. Returns the one to close instead: the oldest over the limit, or itself."""
        entries = self._entries
        entries[connection] = now
        if len(entries) <= self._limit:
            return None
        oldest = next(iter(entries))
        del entries[oldest]
        return oldest

    def take(self, now: float) -> C | None:
        """The connection used last, unless even that one has been idle for too long."""
        if not self._entries:
            return None
        connection, since = self._entries.popitem()
        if now - since < self._timeout:
            return connection
        self._entries[connection] = since
        return None

    def expire(self, now: float) -> list[C]:
        """Give up every connection that has been idle for the timeout, or longer; they are to be closed."""
        expired = [connection for connection, since in self._entries.items() if now - since >= self._timeout]
        for connection in expired:
            del self._entries[connection]
        return expired

    @property
    def oldest(self) -> float | None:
        """Since when the connection that expires next has been idle."""
        return next(iter(self._entries.values()), None)

    def remove(self, connection: C) -> None:
        """Forget a connection that has ended by itself; most have not been idle then, so that must be cheap."""
        self._entries.pop(connection, None)

    def clear(self) -> list[C]:
        """Give up all of them; they are to be closed."""
        connections = list(self._entries)
        self._entries.clear()
        return connections
