"""Sends one request of a load and measures it."""

from __future__ import annotations

import os
import time
from typing import Any

import aiohttp
import msgspec

from warmroute.simulation.load.records import Record
from warmroute.simulation.load.sse import StreamReader

WORKER_HEADERS = ("X-Router-Worker-URL", "X-Router-Prefill-URL")
"""Who served a request; of a pair the one that the prompt was sent to."""


REFUSALS = (401, 403)
"""Statuses that ask for a key, or for another one."""


class EndpointError(ValueError):
    """The endpoint does not answer as an OpenAI endpoint does."""


class LoadClient:
    """Talks to one OpenAI endpoint. Use it as an async context manager; connections are kept alive and unlimited."""

    def __init__(self, base_url: str, *, api_key: str | None = None, timeout_seconds: float = 600.0) -> None:
        self._base = base_url.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._http: aiohttp.ClientSession

    async def __aenter__(self) -> LoadClient:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=self._timeout,
            headers=self._headers,
            trust_env=False,
            auto_decompress=True,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def first_model(self) -> str:
        """The first model that the endpoint lists. Raises EndpointError."""
        url = f"{self._base}/v1/models"
        try:
            async with self._http.get(url) as response:
                if response.status in REFUSALS:
                    raise EndpointError(f"{url}: {self.refused(response.status)}")
                listing = msgspec.json.decode(await response.read())
                return str(listing["data"][0]["id"])
        except aiohttp.ClientConnectorCertificateError as error:
            raise EndpointError(f"{url}: {_untrusted(error)}") from None
        except aiohttp.ClientConnectorError as error:
            raise EndpointError(f"{url}: cannot connect: {_reason(error.os_error)}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EndpointError(f"{url}: {str(error) or type(error).__name__}") from None
        except (msgspec.DecodeError, LookupError, TypeError):
            raise EndpointError(f"{url}: no model is listed; name one with --model") from None

    def refused(self, status: int) -> str:
        """What to do about a status of REFUSALS."""
        given = "does not take the key" if "Authorization" in self._headers else "wants a key"
        return f"HTTP {status}: the endpoint {given}; give one with --api-key"

    async def send(self, body: dict[str, Any], *, keep_text: bool = False) -> Record:
        """Send a body to the path that its fields call for, and read the answer to its end. Failures are recorded."""
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        record = Record()
        payload = msgspec.json.encode(body)
        start = time.perf_counter()
        try:
            async with self._http.post(self._base + path, data=payload) as response:
                record.worker = next(filter(None, map(response.headers.get, WORKER_HEADERS)), None)
                if response.status != 200:
                    record.error = f"HTTP {response.status}"
                    await response.read()
                elif body.get("stream"):
                    await _read_stream(response, record, start, keep_text=keep_text)
                else:
                    _read_whole(await response.read(), record)
        except TimeoutError:
            record.error = "timeout"
        except aiohttp.ClientConnectorCertificateError:
            record.error = "certificate not trusted"
        except aiohttp.ClientConnectorError:
            record.error = "cannot connect"
        except aiohttp.ClientError as error:
            record.error = f"connection: {type(error).__name__}"
        record.total_seconds = time.perf_counter() - start
        return record


def _untrusted(error: aiohttp.ClientConnectorCertificateError) -> str:
    told = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
    return f"the certificate is not trusted ({told}); name the file of those to trust in SSL_CERT_FILE"


def _reason(error: OSError) -> str:
    """Without the address, which asyncio puts in the place of the reason."""
    number = error.errno or 0  # negative: of a name that was looked up
    return os.strerror(number) if number > 0 else error.strerror or str(error)


async def _read_stream(response: aiohttp.ClientResponse, record: Record, start: float, *, keep_text: bool) -> None:
    reader = StreamReader(keep_text=keep_text)
    async for chunk in response.content.iter_any():
        reader.feed(chunk)
        if record.first_token_seconds is None and reader.started:
            record.first_token_seconds = time.perf_counter() - start
    if reader.failed:
        record.error = "error in the stream"
    elif not reader.done:
        record.error = "stream without [DONE]"
    _read_usage(reader.usage, record)
    record.output_tokens = record.output_tokens or reader.token_events
    record.text = reader.text


def _read_whole(body: bytes, record: Record) -> None:
    try:
        answer = msgspec.json.decode(body)
        choice = answer["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
    except (msgspec.DecodeError, LookupError, TypeError):
        record.error = "not an OpenAI answer"
        return
    record.text = text or ""
    _read_usage(answer.get("usage") or {}, record)


def _read_usage(usage: dict[str, Any], record: Record) -> None:
    record.prompt_tokens = usage.get("prompt_tokens") or 0
    record.output_tokens = usage.get("completion_tokens") or 0
    record.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
