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
        self._entries: list[tuple[C, float]] = []  # oldest first
        self._timeout = timeout
        self._limit = limit

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, connection: C, now: float) -> C | None:
        """Keep `connection`. Returns the one to close instead: the oldest over the limit, or itself."""
        if self._timeout <= 0 or self._limit <= 0:
            return connection
        self._entries.append((connection, now))
        return self._entries.pop(0)[0] if len(self._entries) > self._limit else None

    def take(self, now: float) -> C | None:
        """The connection used last, unless even that one has been idle for too long."""
        entries = self._entries
        if entries and now - entries[-1][1] < self._timeout:
            return entries.pop()[0]
        return None

    def expire(self, now: float) -> list[C]:
        """Give up every connection that has been idle for the timeout, or longer; they are to be closed."""
        count = 0
        for _, since in self._entries:
            if now - since < self._timeout:
                break
            count += 1
        expired = [connection for connection, _ in self._entries[:count]]
        del self._entries[:count]
        return expired

    @property
    def oldest(self) -> float | None:
        """Since when the connection that expires next has been idle."""
        return self._entries[0][1] if self._entries else None

    def remove(self, connection: C) -> None:
        """Forget a connection that has ended by itself."""
        self._entries = [entry for entry in self._entries if entry[0] is not connection]

    def clear(self) -> list[C]:
        """Give up all of them; they are to be closed."""
        connections = [connection for connection, _ in self._entries]
        self._entries.clear()
        return connections
