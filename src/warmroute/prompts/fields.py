"""The fields of a request body, as slices of its own JSON text, and how each is judged.

Every field is taken unread (`msgspec.Raw`) and judged when it is asked for. So the last of duplicate keys wins, as with
other JSON parsers, and a field that the router does not need can have any type. One scan checks the syntax of the whole
body; strings that are only hashed are not checked for valid UTF-8 (that would cost a Chinese 64 KB body 120 us), the
engine judges them. Refused, because engines refuse or crash on it: an escaped surrogate without its partner. Refused,
because it is no JSON: NaN, Infinity, control characters inside strings. A UTF-8 byte order mark is skipped.
"""

from __future__ import annotations

import codecs
import math
import re
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Raw

MISSING = Raw()
"""What an absent field holds; compare by identity."""

QUOTE, BRACKET, BRACE = b'"[{'
_T, _F, _N = b"tfn"

_NUMBER = "a number"
_KINDS = {
    **dict.fromkeys(b"-0123456789", _NUMBER),
    QUOTE: "a string",
    BRACKET: "an array",
    BRACE: "an object",
    _T: "a boolean",
    _F: "a boolean",
    _N: "null",
}
_BOOLEANS = {b"true": True, b"false": False, b"null": False, b"": False}
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST_CAP = 15
"""Digits of a token cap that are taken seriously; a longer number caps nothing."""


class BadRequest(Exception):  # noqa: N818 - named after what the client sent
    """The body cannot be served. `str(error)` is for the client; `param` is the field, None for the whole body."""

    code: ClassVar[str | None] = None
    """What programs tell the kind by; None for a wrong type."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidJson(BadRequest):
    """The body is not the JSON text of one object; `why` says what is wrong with it."""

    code: ClassVar[str | None] = "invalid_json"

    def __init__(self, why: str, param: str | None = None) -> None:
        super().__init__(f"Invalid JSON format: {why}.", param)


class Fields(msgspec.Struct, gc=False, frozen=True):
    """The top-level fields that the router may look at, each as its own JSON text."""

    model: Raw = MISSING
    stream: Raw = MISSING
    max_tokens: Raw = MISSING
    max_completion_tokens: Raw = MISSING
    request_id: Raw = MISSING
    session_id: Raw = MISSING
    extra_body: Raw = MISSING
    cache_salt: Raw = MISSING
    chat_template: Raw = MISSING
    chat_template_kwargs: Raw = MISSING
    reasoning_effort: Raw = MISSING
    documents: Raw = MISSING
    tools: Raw = MISSING
    system: Raw = MISSING
    instructions: Raw = MISSING
    messages: Raw = MISSING
    prompt: Raw = MISSING
    input: Raw = MISSING
    text: Raw = MISSING
    query: Raw = MISSING


class HandoverFields(Fields, gc=False, frozen=True):
    """The same, with the fields by which engines hand a request over, or that decide whether they can."""

    bootstrap_host: Raw = MISSING
    bootstrap_port: Raw = MISSING
    bootstrap_room: Raw = MISSING
    disaggregate_info: Raw = MISSING
    kv_transfer_params: Raw = MISSING
    completion_token_ids: Raw = MISSING
    stream_options: Raw = MISSING
    min_tokens: Raw = MISSING
    n: Raw = MISSING
    best_of: Raw = MISSING
    use_beam_search: Raw = MISSING
    echo: Raw = MISSING
    prompt_logprobs: Raw = MISSING
    return_logprob: Raw = MISSING
    input_ids: Raw = MISSING

    def text_of(self, name: str) -> bytes | None:
        """The JSON text of one of these fields; None for one that is absent, or none of these."""
        raw = getattr(self, name, MISSING)
        return None if raw is MISSING or not isinstance(raw, Raw) else bytes(raw)


class _ExtraBody(msgspec.Struct, gc=False, frozen=True):
    session_id: Raw = MISSING


_fields = msgspec.json.Decoder(Fields)
_handover_fields = msgspec.json.Decoder(HandoverFields)
_extra_body = msgspec.json.Decoder(_ExtraBody)
_string = msgspec.json.Decoder(str)


def read_handover_fields(body: bytes) -> HandoverFields:
    """As `read_fields`, for a request that engines are to hand over."""
    return cast(HandoverFields, read_fields(body, _handover_fields))


def read_fields(body: bytes, decoder: msgspec.json.Decoder[Any] = _fields) -> Fields:
    """Split a body into its fields. BadRequest when it is not the JSON text of one object."""
    if body.startswith(codecs.BOM_UTF8):
        body = body[len(codecs.BOM_UTF8) :]
    try:
        fields: Fields = decoder.decode(body)
        return fields
    except msgspec.ValidationError:
        got = _KINDS[body.lstrip()[0]]
        raise InvalidJson(f"the body must be an object, not {got}") from None
    except RecursionError:
        raise InvalidJson("nested too deeply") from None
    except msgspec.DecodeError as error:
        raise InvalidJson(_why_malformed(body, error)) from None


def _why_malformed(body: bytes, error: msgspec.DecodeError) -> str:
    if not body.strip():
        return "the body is empty"
    if _SURROGATE_ESCAPE.search(body):
        return f"{error} (surrogate escapes such as \\ud83d must come in pairs)"
    return str(error)


def present(raw: Raw) -> memoryview | None:
    """The JSON text of a field, or None when it is absent or null."""
    if raw is MISSING:
        return None
    view = memoryview(raw)
    return None if view[0] == _N else view


def read_string(raw: Raw, name: str) -> str | None:
    """A string, or None when absent or null. BadRequest for anything else."""
    try:
        return _string.decode(raw)
    except msgspec.DecodeError:
        pass  # something else, or no valid UTF-8
    view = present(raw)
    if view is None:
        return None
    if view[0] != QUOTE:
        raise wrong_type(name, "a string", view)
    try:
        return _string.decode(view)
    except msgspec.DecodeError:
        raise InvalidJson(f"'{name}' is not valid UTF-8", name) from None


def read_id(raw: Raw) -> str | None:
    """A non-empty string; None for everything else: ids of other types are the engine's to judge."""
    view = present(raw)
    if view is None or view[0] != QUOTE:
        return None
    try:
        return _string.decode(view) or None
    except msgspec.DecodeError:
        return None


def read_session_id(fields: Fields) -> str | None:
    """`session_id`, else `extra_body.session_id`."""
    session = read_id(fields.session_id)
    extra = present(fields.extra_body)
    if session is None and extra is not None and extra[0] == BRACE:
        return read_id(_extra_body.decode(extra).session_id)
    return session


def read_boolean(raw: Raw, name: str) -> bool:
    """A boolean; False when absent or null. BadRequest for anything else."""
    value = _BOOLEANS.get(bytes(raw))
    if value is None:
        raise wrong_type(name, "a boolean", memoryview(raw))
    return value


def read_cap(raw: Raw, name: str) -> int | None:
    """A whole number, however it is written; None when absent, null or no cap at all (negative, absurdly large).

    BadRequest for anything else.
    """
    text = bytes(raw)
    if text.isdigit():
        return int(text) if len(text) <= _LONGEST_CAP else None
    view = present(raw)
    if view is None:
        return None
    # To JSON 16 and 16.0 are the same number, and engines take both.
    value = float(text) if _KINDS[view[0]] == _NUMBER else math.nan
    if not (value.is_integer() or math.isinf(value)):
        raise wrong_type(name, "an integer", view)
    return int(value) if 0 <= value < 10**_LONGEST_CAP else None


def wrong_type(name: str, expected: str, view: memoryview) -> BadRequest:
    """The error that names a field, what was expected and what came."""
    return BadRequest(f"Invalid type for '{name}': expected {expected}, got {_KINDS[view[0]]}.", name)
