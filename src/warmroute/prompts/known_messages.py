"""Reading a conversation again and again, at the price of what was added to it.

Messages that were read before are taken over from the last body that began alike. Only what follows them is read,
behind the same head and a number in their place. That bodies begin alike is known from the fingerprints of their
prompts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from warmroute.prompts.body import Kind
from warmroute.prompts.engine_input import Chat, EngineInput, Json, read_engine_input
from warmroute.prompts.fields import present, read_fields
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prefix_store import PrefixStore

_WORTH_BYTES = 16 * 1024
"""Shorter bodies are read as they are: that costs less than knowing them."""
_ARRAY = re.compile(rb'"messages"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
_BETWEEN = re.compile(rb"[ \t\n\r,]*+")
_raw_list = msgspec.json.Decoder(list[Raw])


class _Known(NamedTuple):
    """`head` is the body up to and with the bracket that opens the messages, `ends` tell where in it each one ends.

    `before` is how many bytes the fingerprint covers before that bracket.
    """

    head: bytes
    before: int
    ends: list[int]
    messages: list[dict[str, Json]]


class KnownMessages:
    """Bounded by `max_bytes`: what was read least recently goes."""

    def __init__(self, max_bytes: int) -> None:
        self._store: PrefixStore[_Known] = PrefixStore(max_bytes)

    @property
    def size_bytes(self) -> int:
        """Memory that is taken, roughly."""
        return self._store.size_bytes

    def read(self, body: bytes, kind: Kind, fingerprint: Sequence[int], ladder: Ladder) -> EngineInput | None:
        """As `read_engine_input`, for a body that `read_request` has accepted and given this fingerprint."""
        if kind != "chat" or len(body) < _WORTH_BYTES:
            return read_engine_input(body, kind)
        known = self._shared(body, fingerprint, ladder)
        text, given = body, None
        if known is not None:
            text = known.head + b"0" + body[known.ends[-1] :]
            given = read_engine_input(text, kind, known.messages)
        if given is None:  # nothing is known, or those are not the messages that count
            known, text = None, body
            given = read_engine_input(body, kind)
        if given is not None and isinstance(given.prompt, Chat):
            self._remember(body, text, fingerprint, known, given.prompt.messages)
        return given

    def _shared(self, body: bytes, fingerprint: Sequence[int], ladder: Ladder) -> _Known | None:
        """What is known of the messages with which this body begins; None if it is no whole one."""
        found = self._store.find(fingerprint)
        if found is None:
            return None
        depth, known = found
        count = bisect_right(known.ends, len(known.head) - 1 - known.before + ladder.bytes_at(depth))
        if not count or not body.startswith(known.head):
            return None
        return known._replace(ends=known.ends[:count], messages=known.messages[:count])

    def _remember(
        self,
        body: bytes,
        text: bytes,
        fingerprint: Sequence[int],
        known: _Known | None,
        messages: list[dict[str, Json]],
    ) -> None:
        """Keep the messages of a body; `text` is what was read of it."""
        fields = read_fields(text)
        if known is None:
            array = _ARRAY.search(body)
            if array is None or not body.startswith(bytes(fields.messages), array.end()):
                return
            known = _Known(body[: array.end() + 1], len(present(fields.tools) or b""), [], [])
        position = known.ends[-1] if known.ends else len(known.head)
        for raw in _raw_list.decode(fields.messages)[bool(known.ends) :]:
            separator = _BETWEEN.match(body, position)
            position = len(raw) + (separator.end() if separator else position)
            known.ends.append(position)
        self._store.put(fingerprint, known._replace(messages=messages), 2 * len(body))
