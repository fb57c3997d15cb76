"""The part of a prefill engine: compute the prompt, keep its KV cache for the decode engine, answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from aiohttp import web

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.driver import Driver
from warmroute.simulation.generation import Generation
from warmroute.simulation.pd.counts import KvCounts
from warmroute.simulation.pd.holdings import Holdings
from warmroute.simulation.pd.ledger import KeyTaken, Kv, State
from warmroute.simulation.pd.plans import Fields, PrefillPlan, Wire, seal_of
from warmroute.simulation.turn import AloneTurn, Turn


class PrefillPart:
    """Serves the prefill legs of one engine."""

    def __init__(self, wire: Wire, holdings: Holdings, driver: Driver, counts: KvCounts) -> None:
        self._wire = wire
        self.holdings = holdings
        self.driver = driver
        self._counts = counts

    def turn(self, fields: Fields, request: GenerationRequest) -> Turn:
        """Raises ApiError when the handshake makes no sense; without one the request is served alone, if it may."""
        try:
            plan = self._wire.prefill(fields, request)
        except ApiError:
            self._counts.refused += 1
            raise
        if plan is None:
            return AloneTurn(request)
        return _PrefillTurn(_shortened(request, plan), plan, self)

    def announce(self, plan: PrefillPlan) -> None:
        """Begin the handovers of a plan, all or none. Raises ApiError when a key is taken."""
        begun: list[str] = []
        try:
            for key in plan.keys:
                self.holdings.announce(key)
                begun.append(key)
        except KeyTaken:
            self._counts.refused += 1
            for key in begun:
                self.holdings.withdraw(key)
            raise ApiError(f"The handover {plan.keys[len(begun)]!r} was begun before.") from None


def _shortened(request: GenerationRequest, plan: PrefillPlan) -> GenerationRequest:
    request = replace(request, keeps_kv=True, spoken=plan.spoken)
    if plan.handle is not None:
        return request
    return replace(request, max_tokens=plan.spoken + 1, finishes_with="length")


@dataclass(frozen=True, slots=True)
class _PrefillTurn:
    request: GenerationRequest
    plan: PrefillPlan
    part: PrefillPart

    async def answer(self, generation: Generation, http_request: web.Request) -> web.StreamResponse:
        """Announce, compute, offer. What was not offered, or is given up while it waits, is withdrawn."""
        self.part.announce(self.plan)
        try:
            await generation.finished()
            members = self._offer(generation)
            if self.plan.answers_when_sent:
                await generation.unless_aborted(self._all_sent())
                self._withdraw()
        except BaseException:
            self._withdraw()
            raise
        return await generation.answer(http_request, members)

    def _offer(self, generation: Generation) -> dict[str, Any]:
        """Offer what was computed; the members that the answer gets."""
        members: dict[str, Any] = {}
        for key, job in zip(self.plan.keys, generation.jobs, strict=True):
            # vLLM gives no handle to a request that has reached its natural end.
            if job.finish_reason != "length":
                self.part.driver.let_go(job)
                self.part.holdings.withdraw(key)
                continue
            seal = self.plan.seal
            if self.plan.handle is not None:
                members = self.plan.handle(job, key)
                seal = seal_of(members)
            kv = Kv(job.context_hash, job.context_tokens, seal)
            self.part.holdings.offer(key, kv, partial(self.part.driver.let_go, job))
        return members

    async def _all_sent(self) -> None:
        for key in self.plan.keys:
            state = await self.part.holdings.ended(key)
            if state is State.EXPIRED:
                raise ApiError(f"No decode engine came to room {key}.", status=500, kind="InternalServerError")

    def _withdraw(self) -> None:
        """What has ended, stays as it is."""
        for key in self.plan.keys:
            self.part.holdings.withdraw(key)
