"""An answer that may be none: held back until it shows whether it is one, an error, or a request for another pair."""

from __future__ import annotations

from collections.abc import Callable

from warmroute.engines.dialect import MAX_HELD_BYTES, EarlyError, Reschedule, Sight, StreamWatch
from warmroute.gateway.headers import ResponseHead, is_compressed, is_json


def watched(
    head: ResponseHead, reschedule: Reschedule | None, watch: Callable[[], StreamWatch] | None
) -> WatchedAnswer | None:
    """The answer with this head, if it is to be watched, by `reschedule` if there is one; None when it passes."""
    if is_compressed(head):
        return None
    if head.event_stream:
        start = watch if reschedule is None else reschedule.stream
        return None if start is None else WatchedAnswer(head, reschedule, start())
    return None if reschedule is None or not is_json(head) else WatchedAnswer(head, reschedule)


class WatchedAnswer:
    """Holds an answer as long as its `sight` is "hold"."""

    __slots__ = ("_held", "_reschedule", "_status", "_watch", "sight")

    def __init__(self, head: ResponseHead, reschedule: Reschedule | None, watch: StreamWatch | None = None) -> None:
        self.sight: Sight = "hold"
        self._status = head.status
        self._reschedule = reschedule
        self._watch = watch
        self._held = bytearray()

    def received(self, body: bytes, complete: bool) -> bytes:
        """Everything that was held, once that is to be passed on, or turns out to be an error; else nothing."""
        self._held += body
        self.sight = self._look(body, complete)
        if self.sight != "pass" and not isinstance(self.sight, EarlyError):
            return b""
        held, self._held = bytes(self._held), bytearray()
        return held

    def _look(self, body: bytes, complete: bool) -> Sight:
        if self._watch is not None:
            sight = self._watch.feed(body) if body else "hold"
            return "pass" if complete and sight == "hold" else sight
        if self._reschedule is None or len(self._held) > MAX_HELD_BYTES:
            return "pass"
        return (self._reschedule.whole(self._status, bytes(self._held)) or "pass") if complete else "hold"
