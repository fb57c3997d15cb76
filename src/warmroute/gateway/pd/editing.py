"""A dialect's edit, applied to the client's answer: a JSON body as a whole, an event stream piece by piece.

Compressed answers, bodies too long to be held and those that are neither JSON nor a stream pass as they are.
"""

from __future__ import annotations

from warmroute.engines.dialect import MAX_HELD_BYTES, AnswerEdit, StreamEdit
from warmroute.gateway.headers import ResponseHead, is_compressed, is_json, with_length, without_length
from warmroute.gateway.pd.filters import NOTHING, Filter, Passed


def edited(head: ResponseHead, edit: AnswerEdit | None) -> Filter | None:
    """The filter that applies `edit` to the answer with this head; None when it passes as it is."""
    if edit is None or is_compressed(head):
        return None
    if head.event_stream:
        return EditedStream(edit.stream())
    return EditedBody(edit) if is_json(head) else None


class EditedStream:
    """Feeds an event stream through an edit. Its length is not known beforehand, so the body is framed anew."""

    __slots__ = ("_edit", "_head")

    def __init__(self, edit: StreamEdit) -> None:
        self._edit = edit
        self._head: ResponseHead | None = None

    def received(self, head: ResponseHead | None, body: bytes, complete: bool) -> Passed:
        """What the edit lets pass."""
        if head is not None:
            self._head = without_length(head)
        out = self._edit.feed(body) if body else b""
        if complete:
            out += self._edit.end()
        elif not out:
            return NOTHING
        head, self._head = self._head, None
        return head, out

    def rest(self) -> bytes:
        """The event that was not over."""
        return self._edit.end()


class EditedBody:
    """Holds a body until it is whole, then edits it."""

    __slots__ = ("_edit", "_head", "_held")

    def __init__(self, edit: AnswerEdit) -> None:
        self._edit: AnswerEdit | None = edit
        self._head: ResponseHead | None = None
        self._held: list[bytes] = []

    def received(self, head: ResponseHead | None, body: bytes, complete: bool) -> Passed:
        """Nothing, and at last everything."""
        if self._edit is None:
            return head, body
        if head is not None:
            self._head = head
        self._held.append(body)
        too_long = sum(map(len, self._held)) > MAX_HELD_BYTES
        if not complete and not too_long:
            return NOTHING
        whole = b"".join(self._held)
        self._held.clear()
        head, self._head = self._head, None
        edit, self._edit = self._edit, None
        if too_long or not whole or head is None:
            return head, whole
        changed = edit.whole(whole)
        return (head if len(changed) == len(whole) else with_length(head, len(changed))), changed

    def rest(self) -> bytes:
        """Nothing: as long as it is held, the client has got nothing either."""
        return b""
