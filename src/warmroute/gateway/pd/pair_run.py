"""One pair at work on one request: both legs, and what has decided it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING

from warmroute.engines.dialect import AnswerEdit, DecodeRequest, Handover, InTurn, Request
from warmroute.gateway.driver import suspended
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmroute.gateway.held import HeldAnswer
from warmroute.gateway.pd.decode_leg import DecodeLeg
from warmroute.gateway.pd.failure import LegFailed
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.prefill_leg import PrefillLeg
from warmroute.gateway.pd.redirect import choose_decode_anew
from warmroute.gateway.pd.verdict import status_of
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pairs import PairLease
from warmroute.scheduling.worker import Worker

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway

_SERVED = Outcome.SERVED  # an attribute of an Enum costs a call


class PairRun:
    """Callbacks of the legs decide it: the first failure cancels the other leg there and then, and wakes the relay up.

    `is_given_back`: the engines gave the request up, and another pair shall get what is now the exchange's.
    The legs alone have the bodies, no frame that waits for the answer: that may take long, and a body be large.
    """

    # How every run begins. As defaults of the class they cost nothing until they change.
    failure: LegFailed | None = None
    is_given_back = False
    _merge: Callable[[bytes], AnswerEdit | None] | None = None
    _follow: Callable[[bytes], DecodeRequest] | None = None
    _any_follows = False

    def __init__(
        self, exchange: Exchange, pair: PairLease, gateway: Gateway, tried_decode: tuple[Worker, ...] = ()
    ) -> None:
        self.exchange = exchange
        self.gateway = gateway
        self.pair = pair
        self.prefill = PrefillLeg(self, pair.prefill)
        self.decode = DecodeLeg(self, pair.decode)
        self._tried_decode = tried_decode

    @property
    def router_lines(self) -> bytes:
        """What the client is told of who answers."""
        return self.prefill.connections.role_line + self.decode.connections.alone_lines

    def answer(self, handover: Handover, *, may_be_given_back: bool) -> Awaitable[None]:
        """Let the pair answer the exchange, or give it back. LegFailed before, UpstreamError after the first byte."""
        prefill, decode = self.prefill, self.decode
        prefill.body = handover.prefill_body
        if may_be_given_back:
            decode.reschedule = handover.reschedule
            decode.is_plain = False
        if isinstance(handover, InTurn):
            self._follow = handover.follow
            self._any_follows = handover.any_follows
            prefill.collects = True
            return self._in_turn()
        decode.body = handover.decode_body
        if handover.merge is not None:
            self._merge = handover.merge
            prefill.collects = decode.waits_for_edit = True
            decode.is_plain = False
        return self._together()

    async def _together(self) -> None:
        """Nothing is sent before both workers take connections: then neither ever waits for the other in vain."""
        prefill, decode = self.prefill, self.decode
        if not prefill.take_kept():
            await prefill.connect()
        if not decode.take_kept():
            await decode.connect()
        self.exchange.sent_at = perf_counter()
        prefill.send()
        decode.send()
        while (event := self._next()) is not None:
            await event

    async def _in_turn(self) -> None:
        prefill = self.prefill
        if not prefill.take_kept():
            await prefill.connect()
        self.exchange.sent_at = perf_counter()
        prefill.send()
        while (event := self._next()) is not None and not prefill.has_ended:
            await event
        if not prefill.has_ended:
            return
        self._redirect()
        self._follow_on()
        decode = self.decode
        if not decode.take_kept():
            await decode.connect()
        decode.send()
        while (event := self._next()) is not None:
            await event

    def _redirect(self) -> None:
        """Let another worker decode if the one that was chosen has become unroutable since."""
        pair = self.pair
        if not self._any_follows or self.gateway.fleet.is_routable(pair.decode.worker):
            return
        if not choose_decode_anew(pair, self._tried_decode, self.exchange, self.gateway):
            return
        before, self.decode = self.decode, DecodeLeg(self, pair.decode)
        self.decode.reschedule = before.reschedule
        self.decode.is_plain = before.is_plain
        before.detach()

    def _follow_on(self) -> None:
        """Make the decode leg's request of the prefill leg's answer."""
        follow, self._follow = self._follow, None
        if follow is None:
            return
        following = follow(self.prefill.answer)
        if following.recomputes:
            self.gateway.pd.recomputed(self.pair)
        decode = self.decode
        decode.edit = following.edit
        decode.watch = following.watch
        if following.edit is not None or following.watch is not None:
            decode.is_plain = False
        decode.body = following.body

    def _next(self) -> Awaitable[None] | None:
        """What to await before looking again: that the legs tell something, or that a lost one has been sent anew.

        None when the client has its answer, or the request was given back. Raises what the pair has failed with.
        """
        exchange = self.exchange
        if exchange.client_gone:
            raise asyncio.CancelledError
        if self.failure is not None:
            raise self.failure
        if exchange.failure is not None:
            exchange.raise_failure()
        if exchange.is_answered or self.is_given_back:
            return None
        if self.prefill.is_lost:
            exchange.sent_at = perf_counter()
            return self.prefill.send_again()
        if self.decode.is_lost:
            return self.decode.send_again()
        return suspended

    # What the legs tell.

    def fail(self, leg: Leg, cause: UpstreamError | HeldAnswer) -> LegFailed:
        """A leg has failed before the client got anything. The first one decides."""
        failure = self.failure
        if failure is None:
            failure = self.failure = LegFailed(leg.side, leg.lease.worker, cause)
            self.cancel_other(leg)
            self.exchange.wake()
        return failure

    def begin_answer(self, connection: UpstreamConnection | None) -> None:
        """The client's answer begins, on that connection. A good one shows that the prompt was computed."""
        prefill, decode = self.prefill, self.decode
        if not prefill.has_begun and 200 <= decode.status < 300:
            prefill.begun()
        prefill.body = decode.body = b""  # nothing is sent again
        self.exchange.attach(connection, self.router_lines)

    def give_back(self, request: Request) -> None:
        """The decode worker's answer is none: another pair shall get this request."""
        self.exchange.request = request
        self.is_given_back = True
        self.prefill.cancel()
        self.decode.cancel()
        self.exchange.wake()

    def cancel_other(self, leg: Leg) -> None:
        """End the other leg at once: no engine shall wait for what never comes."""
        other = self.decode if leg is self.prefill else self.prefill
        other.cancel()

    def prefill_ended(self) -> None:
        """The prefill worker has given its whole answer, and it was collected."""
        merge, self._merge = self._merge, None
        if merge is not None:
            self.decode.go_on(merge(self.prefill.answer))
        elif self._follow is not None:
            self.exchange.wake()

    # The end.

    def close(self, outcome: Outcome) -> None:
        """Give back what is still held. A prefill leg that is not over when all went well may end by itself."""
        prefill, decode = self.prefill, self.decode
        self.pair.decode.release(outcome)
        if outcome is not _SERVED:
            self.exchange.detach()
            decode.cancel()
            prefill.cancel()
            prefill.end(outcome, self._prefill_status(outcome))
            self.failure = None
        elif not prefill.has_ended:
            prefill.linger()
        prefill.detach()
        decode.detach()

    def _prefill_status(self, outcome: Outcome) -> int:
        failure = self.failure
        if outcome is Outcome.ABORTED:
            return CLIENT_CLOSED_REQUEST
        if failure is not None and failure.side == "prefill":
            return status_of(failure.event)
        # Cancelled in the middle of a good answer, it did not end by itself.
        return self.prefill.status if self.prefill.status >= 300 else 0
