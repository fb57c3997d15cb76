"""Clients that ask again and again, and tell apart what a router may do from what it may not.

A request of which the client has a byte may be broken off, if the client is told. One of which it has none must be
served: there was always a worker that could.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from random import Random

import aiohttp

THINK_SECONDS = 1.0
_PATIENCE = aiohttp.ClientTimeout(total=60)
_WORDS = [f"word{number}" for number in range(1000)]


class Results:
    """What became of all requests. `faults` counts, by description, what must not be."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def fault(self, kind: str, what: object) -> None:
        """Count what must not be."""
        self.counts[kind] += 1
        self.faults[f"{kind}: {what}"] += 1


async def keep_asking(url: str, number: int, until: asyncio.Event, results: Results) -> None:
    """One client, on a connection of its own, until the event is set; its last request is still answered.

    After a broken answer it takes a new connection, as SDKs do: the router soon closes the old one, and that would
    cross a request on it.
    """
    rng = Random(number)
    while not until.is_set():
        async with aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as http:
            while not until.is_set() and await _ask(http, url, rng, results):
                with suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), rng.uniform(0, 2 * THINK_SECONDS))


async def _ask(http: aiohttp.ClientSession, url: str, rng: Random, results: Results) -> bool:
    """One request. Returns whether it was served."""
    is_stream = rng.random() < 0.5
    prompt = f"conversation {rng.randrange(50)} " + " ".join(rng.choices(_WORDS, k=rng.randrange(50, 600)))
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": rng.randrange(1, 12),
        "stream": is_stream,
    }
    results.counts["sent"] += 1
    try:
        async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
            if answer.status != 200:
                results.fault("failed before a byte", f"{answer.status} {(await answer.read())[:300]!r}")
            elif is_stream:
                return await _read_stream(answer, results)
            else:
                return await _read_whole(answer, results)
    except (aiohttp.ClientError, TimeoutError) as error:
        results.fault("failed before a byte", repr(error))
    return False


async def _read_whole(answer: aiohttp.ClientResponse, results: Results) -> bool:
    try:
        json.loads(await answer.read())
    except aiohttp.ClientError:
        results.counts["broken off, told by closing"] += 1
    except ValueError as error:
        results.fault("wrong answer", error)
    else:
        results.counts["served"] += 1
        return True
    return False


async def _read_stream(answer: aiohttp.ClientResponse, results: Results) -> bool:
    last = b""
    events = 0
    try:
        async for line in answer.content:
            if line.startswith(b"data:"):
                events += 1
                last = line
    except aiohttp.ClientError as error:
        results.fault("broken off, not told in-band", repr(error))
        return False
    if last.strip() == b"data: [DONE]":
        results.counts["served"] += 1
        return True
    if b'"error"' not in last:
        results.fault("broken off, not told in-band", last[:200])
    elif events == 1:
        results.fault("failed before a byte", last[:300])
    else:
        results.counts["broken off, told in-band"] += 1
    return False
