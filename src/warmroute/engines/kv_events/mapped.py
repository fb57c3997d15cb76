"""Events as maps whose `type` is the tag: vLLM's since 0.23."""

from __future__ import annotations

from warmroute.engines.kv_events.fields import Fields, read_fields
from warmroute.scheduling.kv_events import KvEvent


def read_mapped(event: Fields) -> KvEvent | None:
    """The event; None for one that we do not know. ValueError for what is none."""
    return read_fields(event.get("type"), event)
