"""An answer that may be none: held back until it shows whether the engine gives the request up for another pair."""

from __future__ import annotations

from warmroute.engines.dialect import MAX_HELD_BYTES, Request, Reschedule, StreamWatch
from warmroute.gateway.headers import ResponseHead, is_compressed, is_json
from warmroute.gateway.pd.filters import NOTHING, Passed


def watched(head: ResponseHead, reschedule: Reschedule) -> WatchedAnswer | None:
    """The watch for the answer with this head; None when it passes as it is."""
    if is_compressed(head) or not (head.event_stream or is_json(head)):
        return None
    return WatchedAnswer(reschedule, head)


class WatchedAnswer:
    """Passes an answer on as it is, once it is known to be one. Else `next_request` is what another pair shall get."""

    __slots__ = ("_head", "_held", "_reschedule", "_watch", "is_passing", "next_request")

    def __init__(self, reschedule: Reschedule, head: ResponseHead) -> None:
        self.next_request: Request | None = None
        self._reschedule = reschedule
        self._watch: StreamWatch | None = reschedule.stream() if head.event_stream else None
        self._head: ResponseHead | None = head
        self._held = bytearray()
        self.is_passing = False

    def received(self, head: ResponseHead | None, body: bytes, complete: bool) -> Passed:
        """Nothing while it is in doubt; then everything, and all that follows."""
        if self.is_passing:
            return head, body
        self._held += body
        if self._is_in_doubt(body, complete):
            return NOTHING
        self.is_passing = True
        head, self._head = self._head, None
        held, self._held = bytes(self._held), bytearray()
        return head, held

    def rest(self) -> bytes:
        """Nothing: as long as it is held, the client has got nothing either."""
        return b""

    def _is_in_doubt(self, body: bytes, complete: bool) -> bool:
        if self._watch is not None:
            sight = self._watch.feed(body) if body else "hold"
            if sight == "again":
                self.next_request = self._watch.next_request()
            return sight == "again" or (sight == "hold" and not complete)
        if len(self._held) > MAX_HELD_BYTES:
            return False
        if complete and self._head is not None:
            self.next_request = self._reschedule.whole(self._head.status, bytes(self._held))
        return self.next_request is not None or not complete
