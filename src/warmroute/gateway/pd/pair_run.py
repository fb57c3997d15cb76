"""One pair at work on one request: both legs, and what has decided it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from warmroute.engines.dialect import Handover, InTurn, Request, Together
from warmroute.gateway.driver import suspended
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.exchange import CLIENT_CLOSED_REQUEST, Exchange
from warmroute.gateway.pd.decode_leg import DecodeLeg
from warmroute.gateway.pd.failure import HeldAnswer, LegFailed
from warmroute.gateway.pd.leg import Leg
from warmroute.gateway.pd.prefill_leg import PrefillLeg
from warmroute.gateway.pd.verdict import status_of
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.pairs import PairLease

if TYPE_CHECKING:
    from warmroute.gateway.gateway import Gateway


class PairRun:
    """Callbacks of the legs decide it: the first failure cancels the other leg there and then, and wakes the relay up.

    `given_back`: the engines gave the request up, and another pair shall get this one.
    """

    __slots__ = (
        "_is_in_turn",
        "_merge",
        "decode",
        "exchange",
        "failure",
        "gateway",
        "given_back",
        "pair",
        "prefill",
        "router_lines",
    )

    def __init__(self, exchange: Exchange, pair: PairLease, gateway: Gateway) -> None:
        self.exchange = exchange
        self.gateway = gateway
        self.pair = pair
        self.failure: LegFailed | None = None
        self.given_back: Request | None = None
        self.router_lines = b""
        self.prefill = PrefillLeg(self, pair.prefill)
        self.decode = DecodeLeg(self, pair.decode)
        self._merge: Together | None = None
        self._is_in_turn = False

    async def hand_over(self, handover: Handover, *, may_be_given_back: bool) -> None:
        """Let the pair answer the exchange, or give it back. LegFailed before, UpstreamError after the first byte."""
        url_line = self.gateway.upstream.of(self.pair.decode.worker).url_line
        lines = [b"%b: %b\r\n" % header for header in handover.response_headers]
        self.router_lines = b"".join((url_line, *lines))
        if may_be_given_back:
            self.decode.reschedule = handover.reschedule
        if isinstance(handover, Together):
            await self._together(handover)
        else:
            await self._in_turn(handover)

    async def _together(self, handover: Together) -> None:
        """Nothing is sent before both workers take connections: then neither ever waits for the other in vain."""
        prefill, decode = self.prefill, self.decode
        if handover.merge is not None:
            self._merge = handover
            prefill.collects = decode.waits_for_edit = True
        await prefill.connect()
        await decode.connect()
        prefill.send(handover.prefill_body)
        decode.send(handover.decode_body)
        await self._decided()

    async def _in_turn(self, handover: InTurn) -> None:
        prefill, decode = self.prefill, self.decode
        self._is_in_turn = prefill.collects = True
        await prefill.connect()
        prefill.send(handover.prefill_body)
        await self._decided(prefilled=True)
        if not prefill.has_ended:
            return
        following = handover.follow(prefill.answer)
        if following.recomputes:
            self.gateway.pd.recomputed(self.pair)
        decode.edit = following.edit
        await decode.connect()
        decode.send(following.body)
        await self._decided()

    async def _decided(self, *, prefilled: bool = False) -> None:
        """Wait until the client has its answer, the request was given back or, if `prefilled`, prefill has ended."""
        exchange, prefill, decode = self.exchange, self.prefill, self.decode
        while True:
            if exchange.client_gone:
                raise asyncio.CancelledError
            if self.failure is not None:
                raise self.failure
            exchange.raise_failure()
            if exchange.is_answered or self.given_back is not None or (prefilled and prefill.has_ended):
                return
            if prefill.is_lost:
                await prefill.send_again()
            elif decode.is_lost:
                await decode.send_again()
            else:
                await suspended()

    # What the legs tell.

    def fail(self, leg: Leg, cause: UpstreamError | HeldAnswer) -> LegFailed:
        """A leg has failed before the client got anything. The first one decides."""
        if self.failure is None:
            self.failure = LegFailed(leg.side, leg.lease.worker, cause)
            self.cancel_other(leg)
            self.exchange.wake()
        return self.failure

    def give_back(self, request: Request) -> None:
        """The decode worker's answer is none: another pair shall get this request."""
        self.given_back = request
        self.prefill.cancel()
        self.decode.cancel()
        self.exchange.wake()

    def cancel_other(self, leg: Leg) -> None:
        """End the other leg at once: no engine shall wait for what never comes."""
        other = self.decode if leg is self.prefill else self.prefill
        other.cancel()

    def prefill_ended(self) -> None:
        """The prefill worker has given its whole answer."""
        if self._merge is not None and self._merge.merge is not None:
            self.decode.go_on(self._merge.merge(self.prefill.answer))
        elif self._is_in_turn:
            self.exchange.wake()

    # The end.

    def close(self, outcome: Outcome) -> None:
        """Give back what is still held. A prefill leg that is not over when all went well may end by itself."""
        prefill = self.prefill
        self.exchange.detach()
        self.decode.cancel()
        self.pair.decode.release(outcome)
        if outcome is Outcome.SERVED:
            prefill.linger()
        else:
            prefill.cancel()
            prefill.end(outcome, self._prefill_status(outcome))
        prefill.detach()
        self.decode.detach()
        self.failure = None

    def _prefill_status(self, outcome: Outcome) -> int:
        failure = self.failure
        if outcome is Outcome.ABORTED:
            return CLIENT_CLOSED_REQUEST
        if failure is not None and failure.side == "prefill":
            return status_of(failure.event)
        # Cancelled in the middle of a good answer, it did not end by itself.
        return self.prefill.status if self.prefill.status >= 300 else 0
