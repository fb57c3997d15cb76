"""The router in front of a real prefill and a real decode engine. The last test kills the prefill engine."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks.processes import fetch
from tests.vllm.engines import metrics_page, sample
from tests.vllm.pairs import (
    COMPARED_TOKENS,
    Pair,
    PromptTokens,
    greedy_body,
    logprob_difference,
    long_chats,
    patient_client,
    stream_all,
)
from tests.vllm.sessions import Answer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

LENGTHS = range(1100, 7700, 345)
"""About so many tokens; 20 chats."""
TOLERANCE = 0.05
ALONE = "warmroute_pd_decode_alone_total"
FREEZE_SECONDS = 60


def assert_all_given_back(page: str) -> None:
    """No request holds anything at the router any more."""
    assert sample(page, "warmroute_ledger_consistent") == 1
    for family in ("leases_open", "running_requests", "pending_prefill_tokens"):
        assert sample(page, f"warmroute_{family}") == 0


def complete(results: list[Answer | BaseException]) -> list[Answer]:
    """The answers that came to their end with all of their tokens."""
    answers = [result for result in results if isinstance(result, Answer) and result.complete]
    return [answer for answer in answers if answer.usage["completion_tokens"] == COMPARED_TOKENS]


def test_a_pair_answers_as_one_engine(pair: Pair, tmp_path: Path):
    """The decode engine computes no prompt itself, and what it makes of the pulled cache is what one engine would."""
    before = PromptTokens.of(pair.decode)
    with pair.router(tmp_path / "router.log") as url:
        begin = time.monotonic()
        answers, alike = asyncio.run(through_router_and_direct(pair, url))
        seconds = time.monotonic() - begin
        own = metrics_page(url)
    sources = PromptTokens.of(pair.decode).since(before)
    prompts = [answer.usage["prompt_tokens"] for answer in answers]
    assert min(prompts) >= 1000
    assert max(prompts) <= 8000
    assert {(answer.prefill, answer.worker) for answer in answers} == {(pair.prefill.url, pair.decode.url)}
    print(
        f"\n{len(prompts)} prompts of {min(prompts)} to {max(prompts)}, {sum(prompts)} tokens; decode engine: {sources}"
    )
    # All blocks, those that are not full as well.
    assert sources == PromptTokens(transferred=sum(prompts), computed=0, cached=0)

    differences = [logprob_difference(mine, yours) for mine, yours in zip(answers, alike, strict=True)]
    nearest_other = [
        min(logprob_difference(mine, yours) for yours in alike if yours is not own_twin)
        for mine, own_twin in zip(answers, alike, strict=True)
    ]
    print(f"log probabilities differ by {max(differences):.5f}, from those of other chats by {min(nearest_other):.5f}")
    print(f"{seconds:.0f} s for the chats by the pair, then by one engine")
    assert max(differences) <= TOLERANCE
    assert max(differences) < min(nearest_other), "the answers do not depend on the prompts, so this proves nothing"
    assert_all_given_back(own)
    assert sample(own, ALONE) == 0
    assert sample(own, "warmroute_pd_recomputed_total") == 0
    for role in ("prefill", "decode"):
        assert sample(own, "warmroute_requests_total", role=role) == len(LENGTHS)
        assert sample(own, "warmroute_requests_total", role=role, status="200") == len(LENGTHS)


async def through_router_and_direct(pair: Pair, url: str) -> tuple[list[Answer], list[Answer]]:
    """The same chats by the pair, and by the prefill engine, which must not use what it has cached for the pair."""
    async with patient_client() as http:
        chats = await long_chats(http, pair.prefill, f"alike {time.time_ns()}", LENGTHS)
        routed = await stream_all(http, url, [greedy_body(chat, COMPARED_TOKENS) for chat in chats])
        anew = [greedy_body(chat, COMPARED_TOKENS, cache_salt="anew") for chat in chats]
        direct = await stream_all(http, pair.prefill.url, anew)
    assert len(complete(routed)) == len(complete(direct)) == len(chats), [*routed, *direct]
    return complete(routed), complete(direct)


@dataclass(frozen=True)
class AfterKill:
    """What became of the requests, and when the prefill engine was killed by the clock that they began by."""

    results: list[Answer | BaseException]
    killed: float


def test_nothing_is_lost_with_the_prefill_engine(pair: Pair, tmp_path: Path):
    """Half-way, with a prompt computed but not fetched yet: the decode engine serves that and the rest alone."""
    # The decode engine is stopped for a moment, which no probe shall take for its end.
    patient = ("--health-check-timeout-secs", str(FREEZE_SECONDS))
    with pair.router(tmp_path / "router.log", *patient) as url:
        after = asyncio.run(kill_half_way(pair, url))
        own = metrics_page(url)
        ready = fetch(f"{url}/ready")
    answers = complete(after.results)
    lost = [result for result in after.results if result not in answers]
    alone = [answer for answer in answers if answer.prefill is None]
    late = [answer.began - after.killed for answer in answers if answer.began > after.killed]
    print(f"\n{len(answers)} answers, {len(late)} of them begun after the kill, {len(alone)} without prefill engine")
    print(f"the last one began {max(late):.1f} s after the kill; lost: {lost}")
    assert not lost
    assert len(late) >= len(LENGTHS) // 4
    assert len(alone) == sample(own, ALONE, reason="no_prefill") == sample(own, ALONE)
    assert alone
    assert ready is not None
    assert_all_given_back(own)


async def kill_half_way(pair: Pair, url: str) -> AfterKill:
    """All chats; the prefill engine is killed once half of them are answered and another one has been handed over."""
    half_way = asyncio.Event()
    answered = 0

    def count() -> None:
        nonlocal answered
        answered += 1
        if answered == len(LENGTHS) // 2:
            half_way.set()

    async with patient_client() as http:
        chats = await long_chats(http, pair.prefill, f"killed {time.time_ns()}", LENGTHS)
        bodies = [greedy_body(chat, COMPARED_TOKENS) for chat in chats]
        requests = asyncio.create_task(stream_all(http, url, bodies, count))
        await asyncio.wait((requests, asyncio.create_task(half_way.wait())), return_when=asyncio.FIRST_COMPLETED)
        assert half_way.is_set(), await requests
        pair.decode.signal(signal.SIGSTOP)
        try:
            await another_handed_over(url)
            pair.prefill.signal(signal.SIGKILL)
            killed = asyncio.get_running_loop().time()
        finally:
            pair.decode.signal(signal.SIGCONT)
        return AfterKill(await requests, killed)


async def another_handed_over(url: str) -> None:
    """Wait until one more prefill has ended, by the places that requests hold at the router."""
    at_first = await handed_over(url)
    async with asyncio.timeout(FREEZE_SECONDS):
        while await handed_over(url) <= at_first:
            await asyncio.sleep(0.02)


async def handed_over(url: str) -> float:
    """Requests that the decode engine has and the prefill engine has done with."""
    page = await asyncio.to_thread(metrics_page, url)
    running = "warmroute_running_requests"
    return sample(page, running, role="decode") - sample(page, running, role="prefill")
