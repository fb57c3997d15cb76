"""The part of a decode engine: fetch the KV cache of the prompt, make sure that it is that of the prompt, answer."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace

from aiohttp import web

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.driver import Driver
from warmroute.simulation.generation import Generation, stream_error
from warmroute.simulation.job import Job
from warmroute.simulation.pd.counts import KvCounts
from warmroute.simulation.pd.plans import DecodePlan, Fields, Wire
from warmroute.simulation.pd.puller import KvLost, KvPuller, KvSource
from warmroute.simulation.settings import KvLoss
from warmroute.simulation.turn import AloneTurn, Turn

_REMEMBERED = 100_000
"""Keys that this many others have followed may come again unnoticed."""


@dataclass(frozen=True, slots=True)
class GivingBack:
    """A request that the engine gives up on purpose after `after_tokens` tokens, or at once, with an error."""

    after_tokens: int = 0
    as_error: bool = False


class DecodePart:
    """Serves the decode legs of one engine. `to_give_back`: what becomes of the next requests (FastDeploy only)."""

    def __init__(self, wire: Wire, puller: KvPuller, driver: Driver, counts: KvCounts, on_loss: KvLoss) -> None:
        self.to_give_back: deque[GivingBack] = deque()
        self.counts = counts
        self.driver = driver
        self._wire = wire
        self._puller = puller
        self._on_loss = on_loss
        self._keys: OrderedDict[str, None] = OrderedDict()

    def turn(self, fields: Fields, request: GenerationRequest) -> Turn:
        """Raises ApiError when the handshake makes no sense; without one the request is served alone, if it may."""
        try:
            plan = self._wire.decode(fields, request)
            if plan is not None and plan.single_use:
                self._use(plan)
        except ApiError:
            self.counts.refused += 1
            raise
        if plan is None:
            self.counts.alone += 1
            return AloneTurn(request)
        request = replace(request, receives=True, spoken=plan.spoken)
        giving_back = self.to_give_back.popleft() if self.to_give_back else None
        if giving_back is not None and giving_back.after_tokens:
            tokens = min(plan.spoken + giving_back.after_tokens, request.max_tokens)
            request = replace(request, max_tokens=tokens, finishes_with="pd_reschedule")
        return _DecodeTurn(request, plan, self, giving_back)

    def _use(self, plan: DecodePlan) -> None:
        for source in plan.sources:
            if source.key in self._keys:
                raise ApiError(f"Room {source.key} was used before.", param="bootstrap_room")
        self._keys.update((source.key, None) for source in plan.sources)
        while len(self._keys) > _REMEMBERED:
            self._keys.popitem(last=False)

    async def fetch(self, job: Job, source: KvSource, plan: DecodePlan) -> None:
        """Get the KV cache of an admitted job. Raises ApiError when it does not come, or is not the right one."""
        missing = job.context_tokens - job.cached_tokens
        seconds = self.driver.real_seconds(self.driver.core.timing.transfer_seconds(missing))
        try:
            kv = await self._puller.pull(source, missing, seconds)
        except KvLost as reason:
            self._lost(job, plan, reason)
            return
        if (kv.content, kv.tokens) != (job.context_hash, job.context_tokens):
            self.counts.mismatches += 1
            raise _KvError("The KV cache belongs to another prompt.")
        self.counts.received += 1

    def _lost(self, job: Job, plan: DecodePlan, reason: KvLost) -> None:
        self.counts.failed += 1
        # What is left when all whole blocks are in the cache would be computed in any case (measured with vLLM).
        has_all = job.context_tokens - job.cached_tokens <= self.driver.core.cache.block_size
        if not plan.may_recompute or (self._on_loss == "fail" and not has_all):
            raise _KvLostError(f"The KV cache did not come: {reason}.")
        self.counts.recomputed += 1
        self.driver.compute(job)


class _KvError(ApiError):
    """The KV cache of the prompt cannot be had, or kept, so there is no answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=500, kind="InternalServerError")


class _KvLostError(_KvError):
    """The KV cache did not come."""


@dataclass(frozen=True, slots=True)
class _DecodeTurn:
    request: GenerationRequest
    plan: DecodePlan
    part: DecodePart
    giving_back: GivingBack | None

    async def answer(self, generation: Generation, http_request: web.Request) -> web.StreamResponse:
        """Fetch one prompt after the other, then answer; or give back what was fetched."""
        for job, source in zip(generation.jobs, self.plan.sources, strict=True):
            await generation.receiving(job)
            try:
                await generation.unless_aborted(self.part.fetch(job, source, self.plan))
            except _KvLostError:
                if not (self.request.stream and self.plan.streams_loss):
                    raise
                return await generation.break_down(http_request)
            if self.giving_back is not None and not self.giving_back.after_tokens:
                self.part.driver.abort(job, "pd_reschedule")
            self.part.driver.received(job, with_word=self.plan.with_word)
        if self.giving_back is not None:
            self.part.counts.given_back += 1
            if self.giving_back.as_error:
                error = _KvError("PD Error: the decode engine ran out of blocks.")
                if not self.request.stream:
                    raise error
                return await stream_error(http_request, error)
        return await generation.answer(http_request)
