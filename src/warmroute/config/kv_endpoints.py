"""Addresses of KV-event publishers as operators write them: `ENDPOINT` for all workers, `URL=ENDPOINT` for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warmroute.config.values import worker_url

_ENDPOINT = re.compile(r"tcp://[^\s/]+:\d{1,5}|(?:ipc|inproc)://\S+")


def kv_endpoints(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text with its URL as `worker_url` spells it; ValueError names the bad one, or one that comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        url, endpoint = split_endpoint(text)
        if not _ENDPOINT.fullmatch(endpoint):
            raise ValueError(f"{text!r} must be [WORKER-URL=]tcp://HOST:PORT, as the engine has it (tcp://*:5557)")
        if url in found:
            raise ValueError(f"names {url or 'an address for all workers'} twice")
        found[url] = f"{url}={endpoint}" if url else endpoint
    return tuple(found.values())


def split_endpoint(text: str) -> tuple[str, str]:
    """The worker's URL ("" for all workers) and the endpoint. ValueError for a URL that is none."""
    url, equals, endpoint = text.partition("=")
    if not equals:
        return "", text
    try:
        return worker_url(url), endpoint
    except ValueError as error:
        raise ValueError(f"{text!r}: the worker {error}") from None


def by_worker(texts: Iterable[str]) -> dict[str, str]:
    """The endpoints by worker URL, "" for all others."""
    return dict(map(split_endpoint, texts))
