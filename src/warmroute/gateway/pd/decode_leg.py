"""The decode leg: its answer is the client's, from the first byte of a good body on, as it comes, edited if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmroute.engines.dialect import AnswerEdit, Reschedule
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.pd.editing import edited
from warmroute.gateway.pd.filters import Filter
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.reschedule import WatchedAnswer, watched
from warmroute.gateway.pd.verdict import Verdict
from warmroute.scheduling.lease import Lease

if TYPE_CHECKING:
    from warmroute.gateway.pd.pair_run import PairRun


class DecodeLeg(Leg):
    """`waits_for_edit`: nothing goes on before `go_on` tells how to edit it; its connection is not read meanwhile."""

    side = "decode"

    def __init__(self, run: PairRun, lease: Lease) -> None:
        super().__init__(run, lease)
        self.edit: AnswerEdit | None = None
        self.reschedule: Reschedule | None = None
        self.waits_for_edit = False
        self._is_complete = False
        self._filter: Filter | None = None
        self._watched: WatchedAnswer | None = None

    def go_on(self, edit: AnswerEdit | None) -> None:
        """The edit that the answer had to wait for."""
        self.edit = edit
        self.waits_for_edit = False
        if self._connection is not None:
            self._connection.resume_reading()
        if self._held or self._is_complete:
            body = bytes(self._held)
            self._held.clear()
            self._accept(body, self._is_complete)

    def detach(self) -> None:
        """The pair's run is over."""
        super().detach()
        self._forget_request()

    def _forget_request(self) -> None:
        """Whoever looks for what another pair might get holds the request."""
        self.reschedule = self._filter = self._watched = None

    def _accept(self, body: bytes, complete: bool) -> None:
        if self.waits_for_edit:
            self._keep(body, complete)
            return
        if not body and not complete:
            # Some engines send the head at once: only the body shows that there is an answer.
            return
        if self._head is not None and not self._exchange.started and self._filter is None:
            self._filter = self._filter_for(self._head)
        if self._filter is None:
            self._forget_request()
            self._pass_on(body, complete)
        else:
            self._pass_filtered(body, complete)

    def _keep(self, body: bytes, complete: bool) -> None:
        self._held += body
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
            request = self.reschedule.whole(head.status, bytes(self._held))
        if request is not None:
            run.give_back(request)
        elif self._verdict is Verdict.PASS:
            self._pass_on(b"", True)
        else:
            super()._held_back()

    def _filter_for(self, head: ResponseHead) -> Filter | None:
        if self.reschedule is None:
            return edited(head, self.edit)
        self._watched = watched(head, self.reschedule)
        return self._watched

    def _pass_filtered(self, body: bytes, complete: bool) -> None:
        if self._filter is None or self._run is None:
            return
        head, self._head = self._head, None
        head, body = self._filter.received(head, body, complete)
        if self._watched is not None and self._watched.next_request is not None:
            self._run.give_back(self._watched.next_request)
        elif self._watched is not None and self._watched.is_passing:
            self._head = head
            self._forget_request()
            self._pass_on(body, complete)
        elif head is not None or body or complete:
            if not self._exchange.started:
                self._run.begun()
                self._exchange.attach(self._connection, self._run.router_lines)
            self._exchange.response_received(head, body, complete)

    def _broken(self, error: UpstreamError) -> None:
        if self._filter is not None and (rest := self._filter.rest()):
            self._exchange.response_received(None, rest, False)
        self._exchange.response_failed(error)

    def _too_late(self, what: str, status: int) -> None:
        raise AssertionError(f"a decode leg is judged before it is passed on: {what}")
