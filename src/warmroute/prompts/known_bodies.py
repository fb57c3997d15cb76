"""The bodies of a conversation that grows, each read at the price of what it adds to the ones before.

A body that begins, byte for byte, like one that was read before up to the end of a message there, is the same JSON up
to that place: it is read with a string in the place of those messages. If that is the first of the messages that count,
and the text is the JSON text of an object, then so is the body, and all its other fields are those of the text. In
every other case the body is read as if nothing were known. The fingerprint goes on from the one before, and so do the
messages as engines read them.

Bodies are found again by a few bytes of theirs at many places, and compared in full.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
from msgspec import Raw
from xxhash import xxh3_64_intdigest

from warmroute.prompts.body import Kind, open_ended, read_request
from warmroute.prompts.engine_input import EARLIER, Chat, EngineInput, Json, read_engine_input
from warmroute.prompts.fields import BadRequest, Fields, present, read_fields
from warmroute.prompts.fingerprint import extended
from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.prompts.prefix_store import PrefixStore
from warmroute.prompts.prompt import Prompt

_WORTH_BYTES = 16 * 1024
"""Shorter bodies are read as they are: that costs less than knowing them."""
_LONGEST_BODY = 4 * 1024 * 1024
_LONGEST_HEAD = 256 * 1024
"""So far into a body its messages are looked for."""
_MOST_MESSAGES = 16 * 1024
"""Of more messages than that only the end of the last is known."""
_SIZES = 3
"""What is kept of a body takes about so many times its size: itself, and its messages."""
_BYTES_PER_VALUE = 16
"""Messages with more JSON values than one in so many bytes are not kept: an empty array of 3 bytes becomes 80."""
_PLACEHOLDER = msgspec.json.encode(EARLIER)
_ARRAY = re.compile(rb'"messages"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
"""What stands before the messages. Where it is found first, it may still be inside of something else."""
_BETWEEN = re.compile(rb"[ \t\n\r,]*+")
_SAMPLE_BYTES = 64
_SAMPLES = tuple(int(_WORTH_BYTES / 2 * 1.5**step) for step in range(16))
"""Where samples end: each half as deep again as the one before, to 3.6 MB."""

_raw_list = msgspec.json.Decoder(list[Raw])


@dataclass(slots=True)
class KnownBody:
    """A body that was read, for those that begin like it.

    `bracket` is where its messages begin. `ends` tell where the last one and some before it end, or where each does if
    there are `messages`. The fingerprint covers `before` bytes before that bracket. `text` is what was read of the
    body, with EARLIER in the place of the messages `earlier`.
    """

    body: bytes
    bracket: int
    ends: array[int]
    before: int
    seed: int
    fingerprint: Sequence[int]
    text: bytes
    earlier: list[dict[str, Json]] | None = None
    messages: list[dict[str, Json]] | None = None
    """All of them as engines read them, once that was asked for, if they do not take much more memory than the body."""
    values: int = 0
    """At most so many JSON values, other than texts, are fields of `messages` or, before that, `earlier`, or inside."""


class KnownBodies:
    """Bounded by `max_bytes`: what was read least recently goes."""

    def __init__(self, max_bytes: int) -> None:
        self._store: PrefixStore[KnownBody] = PrefixStore(max_bytes)

    @property
    def size_bytes(self) -> int:
        """Memory that is taken, roughly."""
        return self._store.size_bytes

    def read(self, body: bytes, kind: Kind, ladder: Ladder, fields: Fields | None = None) -> Prompt:
        """As `read_request`."""
        if kind != "chat" or not _WORTH_BYTES <= len(body) <= _LONGEST_BODY:
            return read_request(body, kind, ladder, fields)
        samples = _samples(body)
        found = self._store.find(samples)
        grown = None if found is None else _grown(found[1], body, ladder)
        prompt, known = grown or _whole(body, ladder, fields or read_fields(body))
        if known is not None:
            prompt.known = known
            self._store.put(samples[: bisect_right(_SAMPLES, known.ends[-1])], known, _SIZES * len(body))
        return prompt


def engine_input(body: bytes, kind: Kind, prompt: Prompt) -> EngineInput | None:
    """As `read_engine_input`, for a body of which this prompt was read."""
    known = prompt.known
    if not isinstance(known, KnownBody):
        return read_engine_input(body, kind)
    earlier = known.earlier
    text = body if earlier is None else known.text
    given = read_engine_input(text, kind, earlier)
    known.text, known.earlier = b"", None
    if given is not None and isinstance(given.prompt, Chat) and len(given.prompt.messages) <= _MOST_MESSAGES:
        messages, first = given.prompt.messages, len(earlier or ())
        most = (known.ends[-1] - known.bracket) // _BYTES_PER_VALUE
        known.values += _values(messages[first:], most - known.values)
        if known.values <= most:
            known.ends = _message_ends(known, text, first)
            known.messages = messages
    return given


def _values(messages: Iterable[dict[str, Json]], most: int) -> int:
    """How many JSON values are fields of these messages, but for texts, or inside of such; not exact over `most`."""
    left = [value for message in messages for value in message.values() if not isinstance(value, str)]
    count = 0
    while left and count <= most:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return count


def _samples(body: bytes) -> list[int]:
    """A chain of hashes, each of a few bytes: equal bodies have equal ones."""
    view = memoryview(body)
    windows = [view[end - _SAMPLE_BYTES : end] for end in _SAMPLES[: bisect_right(_SAMPLES, len(body))]]
    return list(accumulate(windows, lambda chain, window: xxh3_64_intdigest(window, chain), initial=0))[1:]


def _whole(body: bytes, ladder: Ladder, fields: Fields) -> tuple[Prompt, KnownBody | None]:
    """Read a body as if nothing were known. Nothing will be, if its messages are not where they seem to be."""
    prompt = read_request(body, "chat", ladder, fields)
    messages = present(fields.messages)
    found = _ARRAY.search(body, 0, _LONGEST_HEAD)
    if found is None or messages is None or not body.startswith(messages, found.end()):
        return prompt, None
    bracket = found.end()
    stop = bracket + len(open_ended(messages))
    if stop == bracket + 1:  # there are none
        return prompt, None
    before = len(present(fields.tools) or b"")
    return prompt, KnownBody(body, bracket, array("Q", [stop]), before, prompt.seed, prompt.fingerprint, body)


def _grown(known: KnownBody, body: bytes, ladder: Ladder) -> tuple[Prompt, KnownBody] | None:
    """Read a body that begins like a known one; None if it has to be read as a whole."""
    bracket, shared = known.bracket, _shared(known, body)
    if not shared:
        return None
    end = known.ends[shared - 1]
    text = b"".join((body[: bracket + 1], _PLACEHOLDER, memoryview(body)[end:]))
    try:
        fields = read_fields(text)
        prompt = read_request(text, "chat", ladder, fields)
    except BadRequest:
        return None
    messages = present(fields.messages)
    if messages is None or messages[1 : 1 + len(_PLACEHOLDER)] != _PLACEHOLDER or text.count(_PLACEHOLDER) > 1:
        return None
    # From here on it is certain that the messages are those behind the known ones.
    before = len(present(fields.tools) or b"")
    depth = ladder.depth(before + end - bracket)
    begin = bracket + ladder.bytes_at(depth) - before
    if prompt.seed != known.seed or before != known.before or not depth or begin < bracket:
        return None
    stop = end + len(open_ended(messages)) - 1 - len(_PLACEHOLDER)
    ends = known.ends[:shared]
    if stop > end:
        ends.append(stop)
    prompt.fingerprint = extended(known.fingerprint[:depth], memoryview(body)[begin:stop], ladder)
    prompt.tokens = -(-(before + stop - bracket) // BYTES_PER_TOKEN)
    earlier = known.messages
    if earlier is not None and shared < len(earlier):
        earlier = earlier[:shared]
    values = 0 if earlier is None else known.values
    return prompt, KnownBody(body, bracket, ends, before, prompt.seed, prompt.fingerprint, text, earlier, values=values)


def _message_ends(known: KnownBody, text: bytes, earlier: int) -> array[int]:
    """Where each message ends. `text` is the body or, after so many earlier ones, what was read of it."""
    body, ends = known.body, known.ends[:earlier]
    close = text.index(b"]", len(text) - len(body) + known.ends[-1])
    messages = _raw_list.decode(memoryview(text)[known.bracket : close + 1])
    position = ends[-1] if earlier else known.bracket + 1
    for raw in messages[1:] if earlier else messages:
        separator = _BETWEEN.match(body, position)
        position = len(raw) + (separator.end() if separator else position)
        ends.append(position)
    return ends


def _shared(known: KnownBody, body: bytes) -> int:
    """How many messages end in what both bodies begin with."""
    view, ends = memoryview(known.body), known.ends
    if body.startswith(view[: ends[-1]]):
        return len(ends)
    low, high, same = 0, len(ends) - 1, 0
    while low < high:  # no part of the bodies is compared twice unless they differ there
        probe = (low + high + 1) // 2
        end = ends[probe - 1]
        if body.startswith(view[same:end], same):
            low, same = probe, end
        else:
            high = probe - 1
    return low
