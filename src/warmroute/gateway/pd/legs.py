"""The two legs of a pair. Each is the sink of one connection: callbacks judge and move what comes.

A leg that was sent on a kept connection which had died unnoticed `is_lost`: it is sent once more, on a new one.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, ClassVar

from warmroute.engines.dialect import MAX_HELD_BYTES, AnswerEdit, Reschedule
from warmroute.gateway.errors import ConnectFailed, ConnectionLost, UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.pd.editing import edited
from warmroute.gateway.pd.failure import HeldAnswer
from warmroute.gateway.pd.filters import Filter
from warmroute.gateway.pd.reschedule import WatchedAnswer
from warmroute.gateway.pd.verdict import Side, Verdict, event_of, judge, status_of
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.scheduling.lease import Lease, Outcome

if TYPE_CHECKING:
    import asyncio

    from warmroute.gateway.pd.pair_run import PairRun

logger = logging.getLogger(__name__)

LINGER_SECONDS = 5.0
"""How long a prefill leg may go on after the client has the whole answer."""

_ACCEPT_ENCODING = re.compile(rb"^accept-encoding:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


class Leg:
    """What both legs have in common. The lease is its own; the pair's run gives it back in the end."""

    side: ClassVar[Side]

    def __init__(self, run: PairRun, lease: Lease) -> None:
        self.lease = lease
        self.status = 0
        self.is_lost = False
        self._run: PairRun | None = run
        self._exchange = run.exchange
        self._connections = run.gateway.upstream.of(lease.worker)
        self._connection: UpstreamConnection | None = None
        self._is_kept = False
        self._request: tuple[bytes, bytes] | None = None
        self._verdict = Verdict.ACCEPT
        self._head: ResponseHead | None = None
        self._held = bytearray()

    # There.

    async def connect(self) -> None:
        """Take a kept connection, or open one. LegFailed when that fails."""
        self._connection = self._connections.take_idle()
        self._is_kept = self._connection is not None
        if self._connection is None:
            await self._connect()

    def send(self, body: bytes) -> None:
        """Send the request on the connection that was opened."""
        head = self._exchange.head_for(self._connections.address, len(body))
        self._request = (self._head_to_send(head), body)
        self._transmit()

    async def send_again(self) -> None:
        """Send what was lost on a new connection."""
        self.is_lost = False
        await self._connect()
        self._transmit()

    def cancel(self) -> None:
        """End what is under way; nothing more is heard of it."""
        self.is_lost = False
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._request is None:
            self._connections.put_back(connection)
        else:
            connection.abort()

    def detach(self) -> None:
        """The pair's run is over."""
        self._run = None

    async def _connect(self) -> None:
        try:
            self._connection = await self._connections.connect()
        except ConnectFailed as error:
            if self._run is None:
                raise
            raise self._run.fail(self, error) from error

    def _transmit(self) -> None:
        connection, request = self._connection, self._request
        if connection is None or request is None:
            return
        if self._run is None or self._run.failure is not None or self._exchange.client_gone:
            # It is decided already: no engine shall begin with this.
            self._request = None
            self.cancel()
        elif connection.is_closed:
            self.response_failed(ConnectionLost("connection closed before the request was sent", self.lease.worker.url))
        else:
            connection.send(*request, self)

    def _head_to_send(self, head: bytes) -> bytes:
        return head

    # And back.

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        """What one read from the worker brought."""
        if complete:
            self._connection = None
        if self._exchange.client_gone:
            return
        if head is not None:
            self.status = head.status
            self._head = head
            self._verdict = judge(self.side, head.status, client_has_bytes=self._exchange.started)
            if self._run is not None and self._verdict in (Verdict.PASS, Verdict.REPLACE):
                self._run.cancel_other(self)
        if self._verdict is Verdict.ACCEPT:
            self._accept(body, complete)
        elif self._verdict is Verdict.REPLACE:
            self._hold(body, complete)
        elif self._verdict is Verdict.PASS:
            self._refuse(body, complete)
        elif complete:
            self._too_late(f"answered {self.status}")

    def response_failed(self, error: UpstreamError) -> None:
        """The connection has failed."""
        self._connection = None
        if self._exchange.client_gone:
            return
        if self._is_kept and isinstance(error, ConnectionLost) and not error.response_seen and self._run is not None:
            self._is_kept = False
            self.is_lost = True
            self._exchange.wake()
        elif self._run is not None and not self._exchange.started:
            self._run.fail(self, error)
        else:
            self._broken(error)

    def _accept(self, body: bytes, complete: bool) -> None:
        raise NotImplementedError

    def _broken(self, error: UpstreamError) -> None:
        raise NotImplementedError

    def _too_late(self, what: str) -> None:
        raise NotImplementedError

    def _refuse(self, body: bytes, complete: bool) -> None:
        self._pass_on(body, complete)

    def _hold(self, body: bytes, complete: bool) -> None:
        """Keep an answer back until it is whole. One that is too long to be kept is the client's."""
        self._held += body
        if complete:
            self._held_back()
        elif len(self._held) > MAX_HELD_BYTES:
            self._pass_on(b"", False)

    def _held_back(self) -> None:
        run, head = self._run, self._head
        if run is not None and head is not None:
            run.fail(self, HeldAnswer(head, bytes(self._held), run.router_lines))

    def _pass_on(self, body: bytes, complete: bool) -> None:
        """What is held, what came now and all that follows is the client's, as it is."""
        if self._run is None:
            return
        connection, self._connection = self._connection, None
        self._exchange.attach(connection, self._run.router_lines)
        if connection is not None:
            connection.hand_to(self._exchange)
        head, self._head = self._head, None
        self._exchange.response_received(head, bytes(self._held) + body if self._held else body, complete)


class PrefillLeg(Leg):
    """Its answer is drained, or collected if it is needed."""

    side = "prefill"

    def __init__(self, run: PairRun, lease: Lease) -> None:
        super().__init__(run, lease)
        self.collects = False
        self.has_ended = False
        self._disaggregation = run.gateway.pd
        self._metrics = run.gateway.metrics
        self._loop = run.gateway.loop
        self._timer: asyncio.TimerHandle | None = None
        self._is_too_long = False

    @property
    def answer(self) -> bytes:
        """The collected answer; empty when it was too long."""
        return b"" if self._is_too_long else bytes(self._held)

    def end(self, outcome: Outcome, status: int) -> None:
        """Give the lease back and count the leg with its status (0: it got as far as none). Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._disaggregation.lingering.discard(self)
        if self.lease.is_open:
            self.lease.release(outcome)
            if status:
                self._metrics.request_done(self.lease.policy, self.side, self.lease.worker.id, status)

    def linger(self) -> None:
        """The client has the whole answer: let the worker end its own in peace, for a while."""
        if self.lease.is_open and self._connection is not None:
            self._disaggregation.lingering.add(self)
            self._timer = self._loop.call_later(LINGER_SECONDS, self.give_up)
        else:
            self.end(Outcome.SERVED, self.status)

    def give_up(self) -> None:
        """Wait for its end no longer."""
        self.cancel()
        self.end(Outcome.SERVED, self.status)

    def _head_to_send(self, head: bytes) -> bytes:
        # What is to be read must not come compressed.
        return _ACCEPT_ENCODING.sub(b"", head) if self.collects else head

    def _accept(self, body: bytes, complete: bool) -> None:
        if body or complete:
            self.lease.first_token()
        if self.collects and not self._is_too_long:
            self._held += body
            if len(self._held) > MAX_HELD_BYTES:
                self._is_too_long = True
                self._held.clear()
        if complete:
            self.has_ended = True
            self.end(Outcome.SERVED, self.status)
            if self._run is not None:
                self._run.prefill_ended()

    def _broken(self, error: UpstreamError) -> None:
        self._too_late(str(error))
        self.end(Outcome.FAILED, status_of(event_of(error)))

    def _too_late(self, what: str) -> None:
        logger.warning(
            "prefill worker %s, while the decode worker was answering already: %s", self.lease.worker.id, what
        )
        self.end(Outcome.FAILED, self.status)


class DecodeLeg(Leg):
    """Its answer is the client's: from the first byte of a good body on, as it comes, edited if need be."""

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
        self._filter = self._watched = None

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
        if self.reschedule is not None:
            self._watched = WatchedAnswer(self.reschedule, head)
            return self._watched
        return edited(head, self.edit)

    def _pass_filtered(self, body: bytes, complete: bool) -> None:
        if self._filter is None or self._run is None:
            return
        head, self._head = self._head, None
        head, body = self._filter.received(head, body, complete)
        if self._watched is not None and self._watched.next_request is not None:
            self._run.give_back(self._watched.next_request)
        elif head is not None or body or complete:
            if not self._exchange.started:
                self._exchange.attach(self._connection, self._run.router_lines)
            self._exchange.response_received(head, body, complete)

    def _broken(self, error: UpstreamError) -> None:
        if self._filter is not None and (rest := self._filter.rest()):
            self._exchange.response_received(None, rest, False)
        self._exchange.response_failed(error)

    def _too_late(self, what: str) -> None:
        raise AssertionError(f"a decode leg is judged before it is passed on: {what}")
