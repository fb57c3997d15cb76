"""Log probabilities of a prompt in SGLang's native answers: the prefill engine's entries go before the decode engine's.

They are arrays in `meta_info`, one answer object for a prompt, an array of them for a batch; the events of a stream
name the prompt of a batch by `index`. Answers of the OpenAI paths have no `meta_info` and pass unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from warmroute.engines.event_stream import EventSplitter, EventStreamEdit, data_span
from warmroute.prompts.splice import read_members, splice

_META = "meta_info"
_ARRAYS = ("input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs")
_FIRST_INDEX = b"0"

_raw_list = msgspec.json.Decoder(list[Raw])

Entries = Mapping[str, bytes]
"""Name of an array -> its JSON text."""


@dataclass(frozen=True, slots=True)
class InputLogprobsEdit:
    """Puts the prefill engine's entries, by the index of their prompt, before those of a decode engine's answer."""

    prefill: Mapping[bytes, Entries]

    def whole(self, body: bytes) -> bytes:
        """The answer, or each answer of an array, with all entries."""
        if not body.lstrip().startswith(b"["):
            return self._merged(body, read_members(body).get("index", _FIRST_INDEX))
        answers = _answers(body)
        merged = [self._merged(answer, b"%d" % index) for index, answer in enumerate(answers)]
        return body if merged == answers else b"[%b]" % b",".join(merged)

    def stream(self) -> EventStreamEdit:
        """An edit of every event that has entries."""
        return EventStreamEdit(b'"input_token_logprobs"', self.whole)

    def _merged(self, answer: bytes, index: bytes) -> bytes:
        meta = read_members(answer).get(_META, b"null")
        entries = _entries(meta)
        before = self.prefill.get(index, {})
        changes = {name: _joined(before[name], array) for name, array in entries.items() if name in before}
        return splice(answer, {_META: splice(meta, changes)}) if changes else answer


def merge_input_logprobs(prefill_answer: bytes, *, stream: bool) -> InputLogprobsEdit | None:
    """The edit that a prefill engine's answer (an event stream if `stream`) asks for; None without any entries."""
    found: dict[bytes, Entries] = {}
    for position, answer in enumerate(_events(prefill_answer) if stream else _answers(prefill_answer)):
        members = read_members(answer)
        index = members.get("index", _FIRST_INDEX if stream else b"%d" % position)
        if entries := _entries(members.get(_META, b"null")):
            found.setdefault(index, entries)
    return InputLogprobsEdit(found) if found else None


def _answers(body: bytes) -> list[bytes]:
    if not body.lstrip().startswith(b"["):
        return [body]
    try:
        return [bytes(raw) for raw in _raw_list.decode(body)]
    except (msgspec.DecodeError, RecursionError):
        return []


def _events(stream: bytes) -> list[bytes]:
    events = [piece.data for piece in EventSplitter().feed(stream) if piece.is_event]
    return [event[slice(*span)] for event in events if (span := data_span(event)) is not None]


def _entries(meta: bytes) -> Entries:
    members = read_members(meta)
    return {name: members[name] for name in _ARRAYS if members.get(name, b"null").startswith(b"[")}


def _joined(first: bytes, second: bytes) -> bytes:
    """Two JSON arrays as one."""
    inner = [array[1:-1].strip() for array in (first, second)]
    return b"[%b]" % b",".join(entries for entries in inner if entries)
