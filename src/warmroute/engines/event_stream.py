"""Taking a server-sent event stream apart, however its chunks are cut, and putting it together again unchanged.

Wire format: WHATWG HTML, "Server-sent events". An event ends with an empty line; lines end with LF, CR or CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from warmroute.engines.dialect import Sight

MAX_EVENT_BYTES = 1024 * 1024
"""A longer event is passed on as it comes, unread. So no more than this, and a chunk, is ever held."""

MAX_WATCHED_BYTES = 64 * 1024
"""A stream that has shown nothing by then is passed on."""

_LINE_ENDS = b"\r\n"
# Atomic, or the two bytes of one CRLF would count as two line ends. A LF after that is the rest of the last CRLF; it
# belongs to no event.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r){2}")
_DATA_LINE = re.compile(rb"^data:[ ]?+(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a stream. `is_event`: these are one whole event, without what ends it."""

    data: bytes
    is_event: bool = False


class EventSplitter:
    """Cuts a stream into pieces. All pieces in order, and `rest()`, are the stream; the cuts of chunks do not show."""

    __slots__ = ("_held", "_too_long")

    def __init__(self) -> None:
        self._held = bytearray()
        self._too_long = False

    @property
    def between_events(self) -> bool:
        """Whether nothing of an event has come that is not over."""
        return not self._held and not self._too_long

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """The pieces that `chunk` completes."""
        held = self._held
        # A line end at the end of what was held may be the first half of an event's end.
        searched = len(held.rstrip(_LINE_ENDS))
        held += chunk
        start = 0
        while True:
            if start or not self._too_long:
                yield from _piece(held, start, start := _skip_line_ends(held, start))
            end = _EVENT_END.search(held, max(start, searched))
            if end is None:
                break
            is_event = not self._too_long and end.start() - start <= MAX_EVENT_BYTES
            yield from _piece(held, start, end.start(), is_event=is_event)
            yield from _piece(held, end.start(), end.end())
            self._too_long = False
            start = end.end()
        del held[:start]
        content = len(held.rstrip(_LINE_ENDS))
        if self._too_long or content > MAX_EVENT_BYTES:
            self._too_long = True
            yield from _piece(held, 0, content)
            del held[:content]

    def rest(self) -> bytes:
        """What is left of a stream that has ended; an event that is not over is none (as for every client)."""
        rest = bytes(self._held)
        self._held.clear()
        return rest


def _skip_line_ends(held: bytearray, start: int) -> int:
    end = start
    while end < len(held) and held[end] in _LINE_ENDS:
        end += 1
    return end


def _piece(held: bytearray, start: int, end: int, *, is_event: bool = False) -> Iterator[Piece]:
    if end > start:
        yield Piece(bytes(held[start:end]), is_event)


def data_span(event: bytes) -> tuple[int, int] | None:
    """Where the data of an event stands; None when it has none, or on several lines."""
    lines = list(_DATA_LINE.finditer(event))
    return lines[0].span(1) if len(lines) == 1 else None


class StreamBegin:
    """A `StreamWatch`: shows the data of one event after the other to `judge`, until that does not say "hold".

    Comments are held, other events without data, or with several lines of it, are not understood. `judge` must not
    raise.
    """

    __slots__ = ("_judge", "_seen", "_sight", "_splitter")

    def __init__(self, judge: Callable[[bytes], Sight]) -> None:
        self._judge = judge
        self._splitter = EventSplitter()
        self._seen = 0
        self._sight: Sight = "hold"

    def feed(self, chunk: bytes) -> Sight:
        """Judge the stream up to and with `chunk`."""
        if self._sight != "hold":
            return self._sight
        self._seen += len(chunk)
        for piece in self._splitter.feed(chunk):
            if piece.is_event and (sight := self._sight_of(piece.data)) != "hold":
                self._sight = sight
                return sight
        if self._seen > MAX_WATCHED_BYTES:
            self._sight = "pass"
        return self._sight

    def _sight_of(self, event: bytes) -> Sight:
        span = data_span(event)
        if span is None:
            return "hold" if event.startswith(b":") else "pass"
        return self._judge(event[slice(*span)])


class EventStreamEdit:
    """Edits the data of those events that hold `needle`; every other byte of the stream passes as it is.

    `edit` gets the data of an event and returns it, changed or not. It must not raise.
    """

    __slots__ = ("_edit", "_needle", "_splitter")

    def __init__(self, needle: bytes, edit: Callable[[bytes], bytes]) -> None:
        self._needle = needle
        self._edit = edit
        self._splitter = EventSplitter()

    def feed(self, chunk: bytes) -> bytes:
        """What may go to the client now that `chunk` has come."""
        # Most chunks are whole events without anything to edit: no need to take them apart.
        if self._splitter.between_events and chunk.endswith(b"\n\n") and self._needle not in chunk:
            return chunk
        return b"".join(
            self._edited(piece.data) if piece.is_event and self._needle in piece.data else piece.data
            for piece in self._splitter.feed(chunk)
        )

    def end(self) -> bytes:
        """What is left when the stream has ended."""
        return self._splitter.rest()

    def _edited(self, event: bytes) -> bytes:
        span = data_span(event)
        if span is None:
            return event
        start, end = span
        return event[:start] + self._edit(event[start:end]) + event[end:]
