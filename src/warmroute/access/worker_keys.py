"""What the router shows to engines to be let in."""

from __future__ import annotations

from collections.abc import Mapping

ALL = ""
"""In place of a URL: all workers that have no key of their own."""


class WorkerKeys:
    """Keys by the URL of the worker, as it is spelled everywhere. Their values are shown to that worker alone."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        self._keys = dict(keys or {})

    def authorization(self, url: str) -> str:
        """The value of the Authorization field for this worker; empty if it gets none."""
        key = self._keys.get(url) or self._keys.get(ALL)
        return f"Bearer {key}" if key else ""
