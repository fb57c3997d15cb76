"""What a real engine takes: probes of an idle engine, and conversations that are played in a closed loop."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from warmroute.replay.calibration import Decoding, FirstToken
from warmroute.replay.trace import Session, Trace, Turn

BLOCK = 32
TIMEOUT = aiohttp.ClientTimeout(total=300)


@dataclass(frozen=True)
class Timed:
    """One answer: seconds to its first token, and between the others in the mean."""

    first_token: float
    per_token: float
    cached_tokens: int


async def ask(http: aiohttp.ClientSession, url: str, ids: Sequence[int], output: int) -> Timed:
    """Complete a prompt of token ids with exactly `output` tokens."""
    body = {
        "model": "tiny",
        "prompt": list(ids),
        "max_tokens": output,
        "ignore_eos": True,
        "temperature": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start = time.perf_counter()
    first = last = 0.0
    cached = 0
    async with http.post(f"{url}/v1/completions", json=body, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"]:
                last = time.perf_counter()
                first = first or last
            elif event.get("usage"):
                cached = (event["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Timed(first - start, (last - first) / max(1, output - 1), cached)


async def probe(
    http: aiohttp.ClientSession, url: str, rng: random.Random, lengths: Sequence[int]
) -> tuple[list[FirstToken], list[Decoding]]:
    """Prompts of each length, new and then grown by a few tokens; and answers alone and several at a time."""
    first_tokens = []
    for length in lengths:
        ids = tokens(rng, length)
        for prompt in (ids, [*ids, *tokens(rng, BLOCK)]):
            timed = await ask(http, url, prompt, 1)
            first_tokens.append(FirstToken(len(prompt) - timed.cached_tokens, timed.cached_tokens, timed.first_token))
    decoding = []
    for batch in (1, 4):
        answers = await asyncio.gather(*(ask(http, url, tokens(rng, 64), 48) for _ in range(batch)))
        decoding.append(Decoding(batch, sum(answer.per_token for answer in answers) / batch))
    return first_tokens, decoding


def tokens(rng: random.Random, count: int) -> list[int]:
    """Token ids that every vocabulary has and no other prompt shares."""
    return [rng.randrange(300, 1500) for _ in range(count)]


@dataclass(frozen=True)
class Talk:
    """Conversations: each turn repeats the one before and adds `grows` tokens, after `think` seconds."""

    sessions: int
    turns: int
    shared: int
    opening: int
    grows: int
    output: int
    think: float
    apart: float
    """Seconds between the starts of two."""

    def prompts(self, rng: random.Random) -> list[list[list[int]]]:
        """The token ids of every turn of every session."""
        common = tokens(rng, self.shared)
        talks = []
        for _ in range(self.sessions):
            ids = [*common, *tokens(rng, self.opening)]
            turns = [ids]
            for _ in range(self.turns - 1):
                turns.append([*turns[-1], *tokens(rng, self.grows)])
            talks.append(turns)
        return talks

    def trace(self, talks: Sequence[Sequence[Sequence[int]]]) -> Trace:
        """The same as a trace: blocks of 32 tokens, answers that never come back."""
        known: dict[tuple[int, ...], int] = {}
        sessions = []
        for number, talk in enumerate(talks):
            turns = []
            for at, ids in enumerate(talk):
                blocks = [known.setdefault(tuple(ids[:end]), len(known)) for end in range(BLOCK, len(ids) + 1, BLOCK)]
                ends = range(0, (len(blocks) + 1) * BLOCK, BLOCK)
                turn = Turn(len(ids), self.output, blocks, ends, self.think if at else 0.0)
                turn.followed_by(None, 10**9 + number * 1000 + at)
                turns.append(turn)
            sessions.append(Session(turns, number * self.apart))
        return Trace("talk", sessions)

    async def play(
        self, http: aiohttp.ClientSession, url: str, talks: Sequence[Sequence[Sequence[int]]]
    ) -> list[Timed]:
        """All sessions against an engine."""

        async def session(number: int, talk: Sequence[Sequence[int]]) -> list[Timed]:
            await asyncio.sleep(number * self.apart)
            answers = []
            for at, ids in enumerate(talk):
                if at:
                    await asyncio.sleep(self.think)
                answers.append(await ask(http, url, ids, self.output))
            return answers

        played = await asyncio.gather(*(session(number, talk) for number, talk in enumerate(talks)))
        return [answer for answers in played for answer in answers]
