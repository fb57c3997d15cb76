"""How the fleet asks engines: one HTTP session, short deadlines, bounded answers. Engines are never trusted.

Library exceptions end here: a probe gives a reason, everything else None.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from warmroute.access.worker_keys import WorkerKeys
from warmroute.engines import Vitals, read_metrics
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.models import ModelObject, read_models
from warmroute.tls import ClientTls

# A page of metrics is about 50 KB and a list of models less; what an engine sends beyond this is not read.
MAX_ANSWER_BYTES = 4 * 1024 * 1024

# Below the 5 s after which uvicorn, and with it most engines, closes an idle connection.
_KEEP_ALIVE_SECONDS = 4.0

# aiohttp's own timers are off and asyncio.timeout() keeps the deadlines: when such a timer goes off while the task is
# being cancelled, aiohttp 3.14 can turn the cancellation into a timeout, and the loop that was to end goes on.
NO_TIMER = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

# An alarm that comes so much too late tells more of this process than of the engine.
_LATE_SECONDS = 0.25

OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
"""The router's own limits (descriptors, memory, ports), not a worker's."""

# ValueError: host names that cannot be encoded, and answers that the parser chokes on.
REQUEST_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of one health check, and why it failed.

    `timed_out`: there was no answer in time. `is_void`: it says nothing about the worker. Either the alarm itself came
    late, for this process was busy or stopped, and an answer may have been there; or this process lacks what it takes
    to ask: files, ports, memory.
    """

    passed: bool
    reason: str = ""
    timed_out: bool = False
    is_void: bool = False


def open_session() -> aiohttp.ClientSession:
    """A session without proxies, cookies or compression. Must be called in the loop that uses it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity", "user-agent": "warmroute"},
        trust_env=False,
    )


class EngineClient:
    """Asks engines for health, metrics and models, each with its key. `timeout` is in seconds per question."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        health_endpoint: str,
        timeout: float,
        keys: WorkerKeys | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._session = session
        self._keys = keys or WorkerKeys()
        self._tls = tls or ClientTls()
        self._health_path = "/" + health_endpoint.lstrip("/")
        self._timeout = timeout

    async def probe(self, url: str) -> Probe:
        """Check health once; only a 200 counts."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            async with asyncio.timeout(self._timeout), self._get(url, url + self._health_path) as response:
                status = response.status
        except TimeoutError as error:
            is_void = clock() - begun > self._timeout + _LATE_SECONDS
            return Probe(False, self._reason(error), timed_out=True, is_void=is_void)
        except REQUEST_ERRORS as error:
            return Probe(False, self._reason(error), is_void=_is_own_lack(error))
        return Probe(status == 200, "" if status == 200 else f"HTTP {status}")

    async def vitals(self, info: InstanceInfo) -> Vitals | None:
        """What the engine's metrics say now; None when they cannot be had or are in no known dialect."""
        page = await self._page(info.url, info.metrics_url)
        return None if page is None else read_metrics(page)

    async def models(self, info: InstanceInfo) -> tuple[ModelObject, ...] | None:
        """The models that the engine lists; None when it lists none."""
        page = await self._page(info.url, info.url + "/v1/models")
        return None if page is None else read_models(page)

    async def page(self, worker_url: str, path: str) -> bytes | None:
        """What a worker answers to a GET; None for an error, or a status other than 200."""
        return await self._page(worker_url, worker_url + path)

    async def post(self, worker_url: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Send JSON to a worker; status and (bounded) answer, both within `seconds`. Raises one of REQUEST_ERRORS."""
        headers = {"content-type": "application/json", **self._credentials(worker_url)}
        url = worker_url + path
        question = self._session.post(
            url, data=body, headers=headers, timeout=NO_TIMER, allow_redirects=False, ssl=self._trust(url)
        )
        async with asyncio.timeout(seconds), question as response:
            return response.status, await read_answer(response)

    def explain(self, error: BaseException, seconds: float) -> str:
        """A short reason for people, without the object dumps of the library."""
        if isinstance(error, TimeoutError):
            return f"no answer within {seconds:g} s"
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return " ".join(str(error.certificate_error).split())[:200]
        if isinstance(error, aiohttp.ClientConnectorError):
            return error.os_error.strerror or "cannot connect"
        return " ".join(str(error).split())[:200] or type(error).__name__

    async def _page(self, worker_url: str, url: str) -> bytes | None:
        try:
            async with asyncio.timeout(self._timeout), self._get(worker_url, url) as response:
                return await read_answer(response) if response.status == 200 else None
        except REQUEST_ERRORS:
            return None

    def _get(self, worker_url: str, url: str) -> aiohttp.client._RequestContextManager:
        headers = self._credentials(worker_url)
        return self._session.get(url, headers=headers, timeout=NO_TIMER, allow_redirects=False, ssl=self._trust(url))

    def _trust(self, url: str) -> ssl.SSLContext | bool:
        return self._tls.context if url.startswith("https:") else True

    def _credentials(self, worker_url: str) -> Mapping[str, str]:
        authorization = self._keys.authorization(worker_url)
        return {"authorization": authorization} if authorization else {}

    def _reason(self, error: BaseException) -> str:
        return self.explain(error, self._timeout)


def _is_own_lack(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES


async def read_answer(response: aiohttp.ClientResponse, limit: int = MAX_ANSWER_BYTES) -> bytes:
    """A body to its end, however many pieces it comes in; what is beyond `limit` bytes is not read."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body[:limit])
