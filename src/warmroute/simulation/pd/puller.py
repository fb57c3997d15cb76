"""A decode engine's way to a prefill engine's KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
import msgspec

from warmroute.simulation.pd.door import PULL_PATH, PullRequest
from warmroute.simulation.pd.ledger import Kv

_GRACE_SECONDS = 1.0
"""What the way there and back may take on top of waiting and transfer."""


class KvLost(Exception):  # noqa: N818 - what becomes of it is decided elsewhere
    """The KV cache did not come; the message says why."""


@dataclass(frozen=True, slots=True)
class KvSource:
    """Where the KV cache of one prompt is: the prefill engine's meeting point, and the handover there.

    `early`: the decode engine may come before the prefill has ended, or even begun.
    """

    host: str
    port: int
    key: str
    seal: str = ""
    early: bool = True

    @property
    def url(self) -> str:
        """IPv6 hosts may come with brackets or without."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"http://{host}:{self.port}{PULL_PATH}"


class KvPuller:
    """Fetches KV caches. `wait_seconds` is how long the prefill may still take, in real seconds.

    Use it as an async context manager. Every transfer has a connection of its own: one that is kept for later could be
    closed by the other side just when it is needed.
    """

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        self._http: aiohttp.ClientSession

    async def __aenter__(self) -> KvPuller:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._http = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def pull(self, source: KvSource, tokens: int, transfer_seconds: float) -> Kv:
        """Fetch `tokens` tokens, which takes `transfer_seconds` once they are there. Raises KvLost."""
        wait = self._wait_seconds if source.early else 0
        body = msgspec.json.encode(PullRequest(source.key, source.seal, tokens, wait))
        limit = aiohttp.ClientTimeout(total=self._wait_seconds + transfer_seconds + _GRACE_SECONDS)
        try:
            async with self._http.post(source.url, data=body, timeout=limit) as response:
                status, text = response.status, await response.read()
        except TimeoutError:
            raise KvLost(f"no answer from {source.host}:{source.port}") from None
        except (aiohttp.ClientError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise KvLost(f"{source.host}:{source.port}: {reason}") from None
        return _read(status, text, source)


def _read(status: int, text: bytes, source: KvSource) -> Kv:
    try:
        fields = msgspec.json.decode(text)
        if status == 200:
            return Kv(fields["content"], fields["tokens"])
        raise KvLost(fields["error"]["message"])
    except (msgspec.DecodeError, LookupError, TypeError):
        raise KvLost(f"{source.host}:{source.port} answered {status}; it is no KV meeting point") from None
