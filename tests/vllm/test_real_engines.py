"""The router in front of real vLLM engines: whole answers, prompt aborts, and caches that are used."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from tests.vllm.engines import CacheUse, metrics_page, running_router, sample
from tests.vllm.sessions import Answer, Play, chat_body, play

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

RUNNING = "vllm:num_requests_running"
LONGEST_SECONDS = 10


def play_through(engines: Sequence[str], policy: str, log: Path) -> tuple[list[Answer], float]:
    """All sessions through a router of their own: their answers, and the engines' cached share."""

    async def sessions(url: str) -> list[Answer]:
        async with aiohttp.ClientSession() as http:
            return await play(http, url, f"{policy} {time.time_ns()}", Play())

    with running_router([("--worker", engine) for engine in engines], log, "--policy", policy) as url:
        before = CacheUse.of(engines)
        answers = asyncio.run(sessions(url))
        share = CacheUse.of(engines).share_since(before)
        own = metrics_page(url)
    assert sample(own, "warmroute_leases_open") == 0
    assert sample(own, "warmroute_pending_prefill_tokens") == 0
    assert sample(own, "warmroute_ledger_consistent") == 1
    spread = sorted(Counter(answer.worker for answer in answers).values())
    print(f"\n{policy}: {len(answers)} answers, {share:.1%} of prompt tokens cached, requests by engine {spread}")
    return answers, share


def test_sessions_are_whole_and_find_their_cache(engines: list[str], tmp_path: Path):
    """The engines' own hit counters tell the policies apart; every stream arrives to its end."""
    plan = Play()
    shares = {}
    for policy in ("round_robin", "cache_aware"):
        answers, shares[policy] = play_through(engines, policy, tmp_path / f"{policy}.log")
        assert len(answers) == plan.sessions * plan.turns
        assert all(answer.complete for answer in answers)
        assert {answer.usage["completion_tokens"] for answer in answers} == {plan.max_tokens}
        assert {answer.worker for answer in answers} == set(engines)
    assert shares["cache_aware"] > shares["round_robin"] + 0.15


def test_a_client_that_leaves_frees_its_engine(engines: list[str], tmp_path: Path):
    """The engine stops generating: the connection to it is closed as soon as the client's is."""
    with running_router([("--worker", engine) for engine in engines], tmp_path / "router.log") as url:
        seconds = sorted(asyncio.run(seconds_until_free(url)) for _ in range(5))
        own = metrics_page(url)
    print(f"\nengine free after the client left: {', '.join(f'{value * 1000:.0f} ms' for value in seconds)}")
    # Where others want the cores too, one of them may take longer; that none lasts as long as the answer is the loop's.
    assert seconds[len(seconds) // 2] < 1.0
    assert seconds[-1] < LONGEST_SECONDS
    assert sample(own, "warmroute_leases_open") == 0


async def seconds_until_free(url: str) -> float:
    """Leave in the middle of a long answer; the time until the engine's own gauge says that nothing runs."""
    long_chat = chat_body([{"role": "user", "content": "tell me a long story"}], 3000)
    async with aiohttp.ClientSession() as http, aiohttp.ClientSession() as probe:
        response = await http.post(f"{url}/v1/chat/completions", json=long_chat)
        engine = response.headers["x-router-worker-url"]
        for _ in range(20):
            assert (await response.content.readline()) is not None
        while await running(probe, engine) == 0:
            assert not response.content.at_eof(), "the answer was over before it was left"
        response.close()
        left = time.perf_counter()
        while await running(probe, engine) > 0 and time.perf_counter() - left < LONGEST_SECONDS:
            pass
        return time.perf_counter() - left


async def running(http: aiohttp.ClientSession, engine: str) -> float:
    """Requests that the engine says it is running."""
    async with http.get(f"{engine}/metrics") as response:
        return sample(await response.text(), RUNNING)
