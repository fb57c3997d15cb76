"""What vLLM's usage says of cached tokens, when a decode engine got its KV cache from a prefill engine.

A decode engine counts its own cache only, and sometimes what it pulled. What a client, and its bill, wants to know is
how many tokens the prefill engine did not have to compute.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Raw

from warmroute.engines.event_stream import EventStreamEdit
from warmroute.prompts.fields import MISSING
from warmroute.prompts.splice import splice

UNREADABLE = (msgspec.DecodeError, RecursionError)
_CACHED = "cached_tokens"
_DETAILS = "prompt_tokens_details"
_USAGE = "usage"
_NONE = b"0"


class _Answer(msgspec.Struct, frozen=True, gc=False):
    usage: Raw = MISSING


class _UsageFields(msgspec.Struct, frozen=True, gc=False):
    prompt_tokens: Raw = MISSING
    prompt_tokens_details: Raw = MISSING


class _DetailFields(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: Raw = MISSING


_answer = msgspec.json.Decoder(_Answer)
_usage = msgspec.json.Decoder(_UsageFields)
_details = msgspec.json.Decoder(_DetailFields)


def cached_tokens(usage: Raw | bytes) -> bytes | None:
    """The cached tokens that a usage object tells of, a number as its JSON text; None when it is no usage object.

    vLLM leaves the details out when there are none, as well as when they are switched off.
    """
    if usage is MISSING:
        return None
    try:
        fields = _usage.decode(usage)
    except UNREADABLE:
        return None
    if fields.prompt_tokens is MISSING:
        return None
    details = bytes(fields.prompt_tokens_details)
    if not details.startswith(b"{"):
        return _NONE
    try:
        cached = bytes(_details.decode(details).cached_tokens)
    except UNREADABLE:
        return _NONE
    return cached if cached.isdigit() else _NONE


@dataclass(frozen=True, slots=True)
class CachedTokensEdit:
    """Makes the usage of an answer tell the prefill engine's number of cached tokens (JSON text)."""

    cached: bytes

    def whole(self, body: bytes) -> bytes:
        """The answer with that number; unchanged without usage, or if it tells the same."""
        try:
            usage = _answer.decode(body).usage
        except UNREADABLE:
            return body
        if cached_tokens(usage) in (None, self.cached):
            return body
        details = bytes(_usage.decode(usage).prompt_tokens_details)
        changed = splice(details if details.startswith(b"{") else b"{}", {_CACHED: self.cached})
        return splice(body, {_USAGE: splice(bytes(usage), {_DETAILS: changed})})

    def stream(self) -> EventStreamEdit:
        """An edit of the events with usage: the last one, or every one."""
        return EventStreamEdit(b'"prompt_tokens"', self.whole)
