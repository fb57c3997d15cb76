"""Where decode engines fetch KV caches: one request, answered when the transfer is over.

The connection stays open while the KV cache is on its way, so that either side notices when the other one dies. This
is no vendor's protocol: real engines use RDMA, shared memory and side channels of their own here.
"""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import read_object
from warmroute.simulation.driver import Driver
from warmroute.simulation.pd.holdings import Holdings
from warmroute.simulation.pd.ledger import NotHeld

PULL_PATH = "/simulation/kv"


class PullRequest(msgspec.Struct):
    """What a decode engine sends: `tokens` is what it lacks, `wait_seconds` how long the prefill may still take."""

    key: str
    seal: str
    tokens: int
    wait_seconds: float


class KvDoor:
    """The handler. `thawed` is cleared while the engine is frozen."""

    def __init__(self, holdings: Holdings, driver: Driver, thawed: asyncio.Event) -> None:
        self._holdings = holdings
        self._driver = driver
        self._thawed = thawed

    async def pull(self, request: web.Request) -> web.Response:
        """A `PullRequest` -> `{content, tokens}`; 404 with the reason when there is nothing."""
        fields = read_object(await request.read())
        try:
            ask = msgspec.convert(fields, PullRequest)
        except msgspec.ValidationError as error:
            raise ApiError(f"This is where decode engines fetch KV caches: {error}") from None
        try:
            kv = await self._holdings.take(ask.key, ask.seal, ask.wait_seconds)
            await self._transfer(ask.key, ask.tokens)
        except NotHeld as reason:
            raise ApiError(str(reason), status=404, kind="NotFoundError") from None
        return web.json_response({"content": kv.content, "tokens": kv.tokens})

    async def _transfer(self, key: str, tokens: int) -> None:
        seconds = self._driver.real_seconds(self._driver.core.timing.transfer_seconds(tokens))
        try:
            await asyncio.sleep(seconds)
            await self._thawed.wait()
        except asyncio.CancelledError:
            self._holdings.interrupt(key)
            raise
        self._holdings.deliver(key)
