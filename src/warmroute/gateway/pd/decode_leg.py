"""The decode leg: its answer is the client's, from the first byte of a good body on, as it comes, edited if need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from warmroute.engines.dialect import AnswerEdit, EarlyError, Request, Reschedule, StreamWatch
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.pd.editing import edited
from warmroute.gateway.pd.filters import Filter
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.verdict import Side, Verdict, judge
from warmroute.gateway.pd.watched import WatchedAnswer, watched


class DecodeLeg(Leg):
    """`waits_for_edit`: nothing goes on before `go_on` tells how to edit it; its connection is not read meanwhile.

    `is_plain`: its answer is neither waited with, nor watched, nor edited.
    """

    side: ClassVar[Side] = "decode"
    is_plain = True
    edit: AnswerEdit | None = None
    reschedule: Reschedule | None = None
    watch: Callable[[], StreamWatch] | None = None
    waits_for_edit = False
    _is_complete = False
    _filter: Filter | None = None
    _watched: WatchedAnswer | None = None

    def go_on(self, edit: AnswerEdit | None) -> None:
        """The edit that the answer had to wait for."""
        self.edit = edit
        self.waits_for_edit = False
        if self._connection is not None:
            self._connection.resume_reading()
        if self._held or self._is_complete:
            body = bytes(self._held or b"")
            self._held = None
            self._accept(body, self._is_complete)

    def detach(self) -> None:
        """The pair's run is over."""
        self._run = None
        self.body = b""
        if not self.is_plain:
            self._filter = None
            self._watch_no_more()

    def _watch_no_more(self) -> None:
        """Who watches may hold the request, for another pair."""
        self.reschedule = self.watch = self._watched = None

    def _accept(self, body: bytes, complete: bool) -> None:
        if self.waits_for_edit:
            self._keep(body, complete)
            return
        if not body and not complete:
            # Some engines send the head at once: only the body shows that there is an answer.
            return
        if self.is_plain:
            self._pass_on(body, complete)
            return
        if self._watched is None and (self.reschedule is not None or self.watch is not None) and self._head is not None:
            self._watched = watched(self._head, self.reschedule, self.watch)
        if self._watched is None:
            self._pass_good(body, complete)
        else:
            self._look(self._watched, body, complete)

    def _keep(self, body: bytes, complete: bool) -> None:
        self._collect(body)
        self._is_complete = complete
        if self._connection is not None and body:
            self._connection.pause_reading()

    def _refuse(self, body: bytes, complete: bool) -> None:
        if self.reschedule is None:
            self._pass_on(body, complete)
        else:
            self._hold(body, complete)

    def _held_back(self) -> None:
        """An answer of whatever status may ask for another pair; if it does not, the verdict on its status holds."""
        run, head = self._run, self._head
        if run is None or head is None:
            return
        request = None
        if self.reschedule is not None:
            request = self.reschedule.whole(head.status, bytes(self._held or b""))
        if request is not None:
            run.give_back(request)
        elif self._verdict is Verdict.PASS:
            self._pass_on(b"", True)
        else:
            super()._held_back()

    def _look(self, watched: WatchedAnswer, body: bytes, complete: bool) -> None:
        """Hold the answer until it shows what it is."""
        held = watched.received(body, complete)
        if isinstance(watched.sight, Request):
            if self._run is not None:
                self._run.give_back(watched.sight)
        elif isinstance(watched.sight, EarlyError):
            self._judge_anew(watched.sight.status, held, complete)
        elif watched.sight == "pass":
            self._pass_good(held, complete)

    def _judge_anew(self, status: int, body: bytes, complete: bool) -> None:
        """The stream is an error, to be judged by that status. It goes to the client, if at all, as it is."""
        self._watch_no_more()
        self.status = status
        self._verdict = judge(self.side, status, client_has_bytes=False)
        if self._run is not None:
            self._run.cancel_other(self)
        if self._verdict is Verdict.REPLACE:
            self._hold(body, complete)
        else:
            self._pass_on(body, complete)

    def _pass_good(self, body: bytes, complete: bool) -> None:
        self._watch_no_more()
        if self._head is not None and self._filter is None:
            self._filter = edited(self._head, self.edit)
        if self._filter is None:
            self._pass_on(body, complete)
        else:
            self._pass_filtered(self._filter, body, complete)

    def _pass_filtered(self, edit: Filter, body: bytes, complete: bool) -> None:
        if self._run is None:
            return
        head, self._head = self._head, None
        head, body = edit.received(head, body, complete)
        if head is not None or body or complete:
            if not self._exchange.started:
                self._run.begin_answer(self._connection)
            self._exchange.response_received(head, body, complete)

    def _broken(self, error: UpstreamError) -> None:
        if self._filter is not None and (rest := self._filter.rest()):
            self._exchange.response_received(None, rest, False)
        self._exchange.response_failed(error)

    def _too_late(self, what: str, status: int) -> None:
        raise AssertionError(f"a decode leg is judged before it is passed on: {what}")
