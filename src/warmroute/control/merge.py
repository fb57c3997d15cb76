"""Many answers to an abort become one: the pure half of `/v1/abort_requests`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# An engine counts the choices of one request as `<id>_0`, `<id>_1`, ...; an abort names the id.
_CHOICE_SUFFIX = re.compile(r"_\d+$")


def merge_abort_replies(
    req_ids: Iterable[str], replies: Mapping[str, object], failures: Mapping[str, str]
) -> dict[str, Any]:
    """`aborted` and `not_found` of all workers together, and `errors` where some failed.

    `replies` are the decoded answers by worker URL, `failures` what went wrong instead. An id is not found only if a
    worker says so and no worker aborted it. Workers that answer without a result (newer engines) add nothing. What
    `aborted` holds differs between engines (ids, or objects with an id) and is passed on as it came. Without any
    worker every one of `req_ids` is not found.
    """
    aborted: list[Any] = []
    not_found: dict[str, None] = {} if replies or failures else dict.fromkeys(req_ids)
    for reply in replies.values():
        result = reply.get("result") if isinstance(reply, Mapping) else None
        if isinstance(result, Mapping):
            aborted += _list(result.get("aborted"))
            not_found |= dict.fromkeys(one for one in _list(result.get("not_found")) if isinstance(one, str))
    ended = {name for entry in aborted for name in _names(entry)}
    merged: dict[str, Any] = {"aborted": aborted, "not_found": [one for one in not_found if one not in ended]}
    if failures:
        merged["errors"] = [{"server": url, "error": error} for url, error in sorted(failures.items())]
    return merged


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(entry: object) -> set[str]:
    """The ids that an entry of `aborted` stands for: its own, and without the number of the choice."""
    texts = entry.values() if isinstance(entry, Mapping) else [entry]
    ids = {text for text in texts if isinstance(text, str)}
    return ids | {_CHOICE_SUFFIX.sub("", one) for one in ids}
