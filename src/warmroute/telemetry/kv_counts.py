"""What has happened while KV events were followed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class KvCounts:
    """Counted over all publishers since the router started."""

    batches: int = 0
    """Messages taken in."""
    unreadable: int = 0
    """Messages, and events in them, that could not be read."""
    gaps: int = 0
    """Times that messages were missing."""
    replays: int = 0
    """Replays asked for."""
    losses: int = 0
    """Times that missing messages could not be had, so that a publisher's blocks were forgotten."""
    restarts: int = 0
    """Publishers that began anew."""
    resyncs: int = 0
    """Times that all of a publisher was read anew because something did not fit."""
