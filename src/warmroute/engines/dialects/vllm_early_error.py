"""What a vLLM decode engine streams when it could not get the KV cache: status 200, the role, an error, [DONE].

An answer that is no stream has the status 500 then. Measured with vLLM 0.32 and `kv_load_failure_policy` "fail".
"""

from __future__ import annotations

import msgspec

from warmroute.engines.dialect import EarlyError, Sight

_UNREADABLE = (msgspec.DecodeError, RecursionError)
_EMPTY: tuple[object, ...] = (None, "", [], {})
_STATUSES = range(400, 600)


def early_error(data: bytes) -> Sight:
    """Judge the data of an event: an error, nothing that a client would miss, or something to pass on."""
    try:
        event = msgspec.json.decode(data)
    except _UNREADABLE:
        return "pass"
    if not isinstance(event, dict):
        return "pass"
    error = event.get("error")
    if isinstance(error, dict):
        return EarlyError(_status(error.get("code")))
    return "hold" if error is None and _is_silent(event.get("choices")) else "pass"


def _status(code: object) -> int:
    return code if isinstance(code, int) and code in _STATUSES else 500


def _is_silent(choices: object) -> bool:
    """Whether the choices say who speaks at most. Members that are not known count, so that none is ever missed."""
    if not isinstance(choices, list) or not choices:
        return False
    return all(
        isinstance(choice, dict)
        and _is_empty(choice, but=("index", "delta"))
        and _is_empty(choice.get("delta") or {}, but=("role",))
        for choice in choices
    )


def _is_empty(members: object, *, but: tuple[str, ...]) -> bool:
    return isinstance(members, dict) and all(name in but or value in _EMPTY for name, value in members.items())
