"""A prefill and a decode engine, and long chats whose KV cache goes from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from tests.vllm.engines import Engine, metrics_page, running_router, sample
from tests.vllm.sessions import MODEL, WORDS, Answer, chat_body, stream_chat, words

COMPARED_TOKENS = 8
TOP = 5
_PATIENCE_SECONDS = 400
"""The first request for log probabilities compiles: seconds, or more than a minute on a busy machine."""


@dataclass(frozen=True)
class Pair:
    """Both engines."""

    prefill: Engine
    decode: Engine

    def router(self, log: Path, *options: str) -> AbstractContextManager[str]:
        """A router in front of both, as `running_router`."""
        return running_router([("--prefill", self.prefill.url), ("--decode", self.decode.url)], log, *options)

    def warm_up(self, log: Path) -> None:
        """Let each engine compile what it will need, then let them meet: a handshake must not take more than 5 s."""
        asyncio.run(self._warm_up((self.prefill.url, self.decode.url)))
        with self.router(log) as url:
            asyncio.run(self._warm_up((url,)))

    async def _warm_up(self, urls: Sequence[str]) -> None:
        async with patient_client() as http:
            for url in urls:
                for count in (50, 1500):
                    chat = [{"role": "user", "content": f"{url} {words(count, Random(count))}"}]
                    await stream_chat(http, url, greedy_body(chat, COMPARED_TOKENS))


def patient_client() -> aiohttp.ClientSession:
    """A client that waits as long as busy engines on a busy machine may need."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE_SECONDS))


def greedy_body(messages: list[dict[str, str]], max_tokens: int, **more: Any) -> dict[str, Any]:
    """A request that every engine answers alike, with the log probabilities that show it."""
    return chat_body(messages, max_tokens) | {"temperature": 0, "logprobs": True, "top_logprobs": TOP} | more


async def long_chats(
    http: aiohttp.ClientSession, engine: Engine, subject: str, lengths: Sequence[int]
) -> list[list[dict[str, str]]]:
    """Messages of about so many tokens each. No two share a block, and each has three words of its own choice.

    (All words at random would make all long prompts the same to a small model.)
    """
    rng = Random(subject)
    choices = rng.sample(list(combinations(WORDS, 3)), len(lengths))
    chats = []
    for number, (length, own) in enumerate(zip(lengths, choices, strict=True)):
        sample_text = {"model": MODEL, "prompt": " ".join(own * 50)}
        async with http.post(f"{engine.url}/tokenize", json=sample_text) as response:
            per_word = (await response.json())["count"] / 150
        chats.append([{"role": "user", "content": f"{number} {subject}: {words(int(length / per_word), rng, own)}"}])
    return chats


async def stream_all(
    http: aiohttp.ClientSession,
    url: str,
    bodies: Sequence[dict[str, Any]],
    on_answer: Callable[[], None] = lambda: None,
) -> list[Answer | BaseException]:
    """What became of all requests, four at a time. `on_answer` is called at the end of each good one."""
    places = asyncio.Semaphore(4)

    async def one(body: dict[str, Any]) -> Answer:
        async with places:
            answer = await stream_chat(http, url, body)
            on_answer()
            return answer

    return await asyncio.gather(*map(one, bodies), return_exceptions=True)


@dataclass(frozen=True)
class PromptTokens:
    """Where an engine has got the KV cache of its prompts from, in tokens."""

    transferred: float
    computed: float
    cached: float

    @classmethod
    def of(cls, engine: Engine) -> PromptTokens:
        """Since the engine started, from its own metrics."""
        page = metrics_page(engine.url)
        sources = ("external_kv_transfer", "local_compute", "local_cache_hit")
        return cls(*(sample(page, "vllm:prompt_tokens_by_source_total", source=source) for source in sources))

    def since(self, before: PromptTokens) -> PromptTokens:
        """What has come since then."""
        return PromptTokens(
            self.transferred - before.transferred, self.computed - before.computed, self.cached - before.cached
        )


def logprob_difference(one: Answer, other: Answer) -> float:
    """The largest difference of a log probability among the top tokens of each of the first positions.

    A token that only one of them lists has at most the other's lowest: near the end of the list, ranks may swap.
    """
    pairs = zip(one.logprobs[:COMPARED_TOKENS], other.logprobs[:COMPARED_TOKENS], strict=True)
    return max(max(_difference(_top(a), _top(b)), _difference(_top(b), _top(a))) for a, b in pairs)


def _top(position: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """By the bytes of the token: the texts of two that are no whole characters may be equal."""
    return {tuple(entry["bytes"]): entry["logprob"] for entry in position["top_logprobs"]}


def _difference(mine: dict[tuple[int, ...], float], yours: dict[tuple[int, ...], float]) -> float:
    lowest = min(yours.values())
    return max(abs(value - yours.get(token, lowest)) for token, value in mine.items())
