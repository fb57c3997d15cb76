"""What vLLM's usage says of cached tokens, when a decode engine got its KV cache from a prefill engine.

A decode engine counts its own cache only, and sometimes what it pulled. What a client, and its bill, wants to know is
how many tokens the prefill engine did not have to compute.
"""

from __future__ import annotations

from dataclasses import dataclass

from warmroute.engines.event_stream import EventStreamEdit
from warmroute.prompts.splice import read_members, splice

_CACHED = "cached_tokens"
_DETAILS = "prompt_tokens_details"
_USAGE = "usage"
_NONE = b"0"


def cached_tokens(usage: bytes) -> bytes | None:
    """The cached tokens that a usage object tells of, a number as its JSON text; None when it is no usage object.

    vLLM leaves the details out when there are none, as well as when they are switched off.
    """
    members = read_members(usage)
    if "prompt_tokens" not in members:
        return None
    cached = read_members(members.get(_DETAILS, b"null")).get(_CACHED, b"null")
    return cached if cached.isdigit() else _NONE


@dataclass(frozen=True, slots=True)
class CachedTokensEdit:
    """Makes the usage of an answer tell the prefill engine's number of cached tokens (JSON text)."""

    cached: bytes

    def whole(self, body: bytes) -> bytes:
        """The answer with that number; unchanged without usage, or if it tells the same."""
        members = read_members(body)
        usage = members.get(_USAGE, b"null")
        if cached_tokens(usage) in (None, self.cached):
            return body
        usage_members = read_members(usage)
        details = usage_members.get(_DETAILS, b"null")
        changed = splice(details if details.startswith(b"{") else b"{}", {_CACHED: self.cached})
        return splice(body, {_USAGE: splice(usage, {_DETAILS: changed}, usage_members)}, members)

    def stream(self) -> EventStreamEdit:
        """An edit of the events with usage: the last one, or every one."""
        return EventStreamEdit(b'"prompt_tokens"', self.whole)
