"""The models that a worker lists at `GET /v1/models` (OpenAI list form)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

ModelObject = dict[str, Any]

# Enough for an engine with thousands of adapters; the rest of a longer list is not believed.
MAX_MODELS = 10_000


def read_models(body: bytes) -> tuple[ModelObject, ...] | None:
    """The model objects of an answer, as the engine wrote them; None when it is no such list. Never raises."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    return tuple(item for item in listed[:MAX_MODELS] if _has_id(item))


def merge_models(lists: Iterable[Iterable[ModelObject]]) -> list[ModelObject]:
    """One list of all; the first object of an id wins."""
    merged: dict[str, ModelObject] = {}
    for models in lists:
        for model in models:
            merged.setdefault(model["id"], model)
    return list(merged.values())


def _has_id(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"] != ""
