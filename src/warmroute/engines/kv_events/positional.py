"""Events as arrays with the tag first: SGLang's, and vLLM's until about 0.22. Fields at the end may be missing.

SGLang has a map where vLLM has the adapter's name: {cache_salt, session_id}.
"""

from __future__ import annotations

from collections.abc import Sequence

from warmroute.engines.kv_events.fields import read_fields
from warmroute.scheduling.kv_events import KvEvent

_STORED = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
)
_REMOVED = ("block_hashes", "medium", "group_idx")
_NAMES = {"BlockStored": _STORED, "BlockRemoved": _REMOVED}


def read_positional(event: Sequence[object]) -> KvEvent | None:
    """The event; None for one that we do not know. ValueError for what is none."""
    tag = event[0] if event else None
    if not isinstance(tag, str):
        raise ValueError("an event without a tag")
    fields: dict[str, object] = dict(zip(_NAMES.get(tag, ()), event[1:], strict=False))
    extension = fields.get("lora_name")
    if isinstance(extension, dict):
        del fields["lora_name"]
        fields["cache_salt"] = extension.get("cache_salt")
    return read_fields(tag, fields)
