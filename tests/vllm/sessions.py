"""Multi-turn chats as a client plays them: streamed, each turn with everything that was said before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

MODEL = "tiny"
WORDS = ("cache", "worker", "turn", "prefix", "block", "token", "engine", "answer", "river", "garden", "paper")


@dataclass
class Answer:
    """What one stream brought. `prefill`: the worker that the router says computed the prompt, if it was another one.

    `began`: when the first byte was there, by the loop's clock.
    """

    worker: str
    prefill: str | None = None
    began: float = 0.0
    text: str = ""
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    done: bool = False

    @property
    def complete(self) -> bool:
        """Whether the stream said how it ended, and that it ended."""
        return self.finish_reason in ("stop", "length") and self.done


async def stream_chat(http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Answer:
    """One streamed chat request. AssertionError for an answer that is no event stream or goes on after its end."""
    async with http.post(f"{url}/v1/chat/completions", json=body) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        headers = response.headers
        answer = Answer(headers.get("x-router-worker-url", url), headers.get("x-router-prefill-url"))
        async for line in response.content:
            answer.began = answer.began or asyncio.get_running_loop().time()
            take_line(answer, line.strip())
        return answer


def chat_body(messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
    """A request whose answer has exactly `max_tokens` tokens of varied text (a greedy random model repeats one token).

    No "seed": vLLM 0.32.0 on a CPU dies of one as soon as it cuts a prompt into chunks.
    """
    return {
        "model": MODEL,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 1,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def take_line(answer: Answer, line: bytes) -> None:
    """Take one line of an event stream into the answer."""
    if not line:
        return
    assert line.startswith(b"data: "), line
    assert not answer.done, f"after [DONE]: {line!r}"
    data = line.removeprefix(b"data: ")
    if data == b"[DONE]":
        answer.done = True
        return
    chunk = json.loads(data)
    assert "error" not in chunk, chunk
    answer.usage = chunk.get("usage") or answer.usage
    for choice in chunk["choices"]:
        answer.text += choice["delta"].get("content") or ""
        answer.logprobs += (choice.get("logprobs") or {}).get("content") or []
        answer.finish_reason = choice["finish_reason"] or answer.finish_reason


@dataclass(frozen=True)
class Play:
    """How many chats of how many turns, all at the same time. Lengths in words (about 2 tokens) and tokens.

    A person reads each answer, for up to `think` seconds; without that all sessions would move in step and alternate
    between the engines.
    """

    sessions: int = 12
    turns: int = 6
    system_words: int = 200
    user_words: int = 50
    max_tokens: int = 48
    think: float = 0.3


async def play(http: aiohttp.ClientSession, url: str, subject: str, plan: Play) -> list[Answer]:
    """Play all sessions side by side and return every answer. Sessions of two subjects share no prefix."""
    sessions = (_session(http, url, f"{subject} {number}", plan) for number in range(plan.sessions))
    return [answer for answers in await asyncio.gather(*sessions) for answer in answers]


async def _session(http: aiohttp.ClientSession, url: str, subject: str, plan: Play) -> list[Answer]:
    rng = Random(subject)
    messages = [{"role": "system", "content": f"{subject}: {words(plan.system_words, rng)}"}]
    answers = []
    for _ in range(plan.turns):
        messages.append({"role": "user", "content": words(plan.user_words, rng)})
        answers.append(await stream_chat(http, url, chat_body(messages, plan.max_tokens)))
        messages.append({"role": "assistant", "content": answers[-1].text})
        await asyncio.sleep(rng.uniform(0.0, plan.think))
    return answers


def words(count: int, rng: Random, choice: Sequence[str] = WORDS) -> str:
    """So many words."""
    return " ".join(rng.choices(choice, k=count))
