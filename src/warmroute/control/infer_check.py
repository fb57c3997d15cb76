"""One request of one token, to see whether a worker, or a pair of them, can really serve."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection
from random import Random

import aiohttp
import msgspec

from warmroute.access.worker_keys import WorkerKeys
from warmroute.engines.dialect import Dialect, InTurn, Request
from warmroute.engines.peer import Peer
from warmroute.fleet.client import REQUEST_ERRORS, EngineClient
from warmroute.tls import ClientTls

CHECK_TIMEOUT_SECONDS = 60.0  # as in FastDeploy's router
_PATH = "/v1/chat/completions"


class CannotServe(Exception):  # noqa: N818 - it states a fact about a worker, not a fault
    """The request was not answered with status 200; the message says who did what instead."""


class InferCheck:
    """Sends the request. Each method returns once it was served, else it raises CannotServe."""

    def __init__(
        self,
        http: Callable[[], aiohttp.ClientSession],
        rng: Random,
        keys: WorkerKeys | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._http = http
        self._keys = keys
        self._tls = tls
        self._rng = rng

    async def alone(self, url: str, models: Collection[str]) -> None:
        """Ask one worker, for one of these models."""
        await self._post(url, one_token_request(models))

    async def pair(self, dialect: Dialect, prefill: Peer, decode: Peer, models: Collection[str]) -> None:
        """Ask two workers to serve together; the first failure ends both legs."""
        request = Request(one_token_request(models), "chat", False, str(uuid.uuid4()))
        handover = dialect.begin(request, prefill, decode, self._rng)
        if isinstance(handover, InTurn):
            answer = await self._post(prefill.url, handover.prefill_body)
            await self._post(decode.url, handover.follow(answer).body)
            return
        failures: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as legs:
                legs.create_task(self._post(prefill.url, handover.prefill_body))
                legs.create_task(self._post(decode.url, handover.decode_body))
        except* CannotServe as group:
            failures.extend(group.exceptions)
        if failures:
            raise CannotServe(str(failures[0]))

    async def _post(self, url: str, body: bytes) -> bytes:
        client = EngineClient(self._http(), "", CHECK_TIMEOUT_SECONDS, self._keys, self._tls)
        try:
            status, answer = await client.post(url, _PATH, body, CHECK_TIMEOUT_SECONDS)
        except REQUEST_ERRORS as error:
            raise CannotServe(f"{url}: {client.explain(error, CHECK_TIMEOUT_SECONDS)}") from error
        if status != 200:
            raise CannotServe(f"{url} answers HTTP {status}")
        return answer


def one_token_request(models: Collection[str]) -> bytes:
    """FastDeploy's check request, but with a model that the workers list: other engines refuse an unknown one."""
    return msgspec.json.encode(
        {
            "model": min(models, default="default"),
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 1,
            "stream": False,
        }
    )
