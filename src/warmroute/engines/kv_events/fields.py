"""What the fields of an event mean, whichever encoding they came in. ValueError for what cannot be meant.

Source: vLLM `vllm/distributed/kv_events.py`, SGLang `python/sglang/srt/disaggregation/kv_events.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import extra_bytes
from warmroute.scheduling.kv_events import MAIN_TIER, Cleared, KvEvent, Removed, Stored

Fields: TypeAlias = Mapping[str, object]

_DENSE_KINDS = {None, "full_attention", "mla_attention", "sink_full_attention"}
"""The kinds of KV cache in which a prefix is there as a whole or not at all. Engines before hybrid models tell none."""
_HASH_BYTES = 8
_MASK = 2**64 - 1
_MOST_HASHES = 1 << 20


def read_fields(tag: object, fields: Fields) -> KvEvent | None:
    """The event of this name; None for one that we do not know."""
    if tag == "BlockStored":
        return _stored(fields)
    if tag == "BlockRemoved":
        return Removed(_hashes(fields.get("block_hashes")), _tier(fields), _number(fields, "group_idx", 0))
    if tag == "AllBlocksCleared":
        return Cleared()
    return None


def _stored(fields: Fields) -> Stored:
    parent = fields.get("parent_block_hash")
    lora = _lora(fields)
    tokens = fields.get("token_ids")
    if not isinstance(tokens, list):
        raise ValueError("token_ids is no list")
    salt = fields.get("cache_salt")
    return Stored(
        _hashes(fields.get("block_hashes")),
        None if parent is None else _hash(parent),
        pack_token_ids(tokens),
        _number(fields, "block_size"),
        lora,
        _extras(fields.get("extra_keys"), lora),
        salt if isinstance(salt, str) else "",
        _tier(fields),
        _number(fields, "group_idx", 0),
        fields.get("kv_cache_spec_kind") in _DENSE_KINDS,
    )


def _hashes(values: object) -> Sequence[int]:
    if not isinstance(values, list) or len(values) > _MOST_HASHES:
        raise ValueError("block_hashes is no list, or far too long")
    return [_hash(value) for value in values]


def _hash(value: object) -> int:
    """Signed and unsigned numbers are one and the same; of a digest the last 8 bytes count, as vLLM does it."""
    if isinstance(value, int):
        return value & _MASK
    if isinstance(value, bytes) and value:
        return int.from_bytes(value[-_HASH_BYTES:], "big")
    raise ValueError(f"a block hash cannot be of type {type(value).__name__}")


def _number(fields: Fields, name: str, default: int | None = None) -> int:
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, int) and 0 <= value < 2**31:
        return value
    raise ValueError(f"{name} is no number")


def _tier(fields: Fields) -> str:
    medium = fields.get("medium")
    return medium.upper() if isinstance(medium, str) and medium else MAIN_TIER


def _lora(fields: Fields) -> str:
    """The adapter's name. A number alone names none that a request could ask for, but it keeps the blocks apart."""
    name, number = fields.get("lora_name"), fields.get("lora_id")
    if isinstance(name, str) and name:
        return name
    return "" if number is None else f"\0{number}"


def _extras(extra_keys: object, lora: str) -> Sequence[bytes]:
    """What else made each block's hash, without the adapter's name that vLLM puts before it."""
    if not isinstance(extra_keys, list) or not any(extra_keys):
        return ()
    extras = []
    for parts in extra_keys:
        if isinstance(parts, list):
            extras.append(extra_bytes(parts[1:] if lora and parts[:1] == [lora] else parts))
        else:
            extras.append(extra_bytes([parts]) if parts else b"")
    return extras
