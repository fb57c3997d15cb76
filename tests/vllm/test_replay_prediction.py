"""A replay with a model that is calibrated to a real engine predicts what conversations see of that engine."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

import aiohttp
import pytest
from tests.vllm.calibration import Talk, Timed, probe
from tests.vllm.engines import Engine, Kit, running_engines

from warmroute.replay.calibration import Decoding, FirstToken, calibrated
from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.run import run

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

STEP_TOKENS = 2048
RUNNING = 8
MOST_WAITED = 0.2
CACHE_TOKENS = 100_000
TALK = Talk(sessions=8, turns=4, shared=512, opening=700, grows=160, output=24, think=1.0, apart=1.5)


@pytest.fixture
def engine(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine whose prefill is slow enough to be seen."""
    monkeypatch.setenv("MODEL", str(kit.directory / "tiny-model-mid"))
    with running_engines(kit, [("--max-num-batched-tokens", str(STEP_TOKENS))]) as (engine,):
        yield engine


def test_the_mean_time_to_first_token_is_predicted_within_a_fifth(engine: Engine) -> None:
    """On a machine that lets the engine have its cores: a model of the engine says nothing of what else runs there."""
    rng = random.Random(11)
    talks = TALK.prompts(rng)

    async def measure() -> tuple[list[FirstToken], list[Decoding], list[Timed]]:
        async with aiohttp.ClientSession() as http:
            await probe(http, engine.url, rng, (300,))  # What is compiled at first use.
            before = await probe(http, engine.url, rng, (128, 512, 1024, 2048, 3000))
            played = await TALK.play(http, engine.url, talks)
            after = await probe(http, engine.url, rng, (256, 768, 1500, 2500))
        return before[0] + after[0], before[1] + after[1], played

    began, waits = time.monotonic(), engine.waits()
    first_tokens, decoding, played = asyncio.run(measure())
    waited = max(seconds - waits.get(thread, 0.0) for thread, seconds in engine.waits().items())
    share = waited / (time.monotonic() - began)
    model = calibrated(first_tokens, decoding, EngineModel(step_tokens=STEP_TOKENS, max_running=RUNNING))
    result = run(TALK.trace(talks), "round_robin", Fleet(1, model, CACHE_TOKENS))
    assert result.first_token is not None
    measured = sum(answer.first_token for answer in played) / len(played)
    print(f"\n{model}\nmean TTFT measured {measured:.3f} s, predicted {result.first_token.mean:.3f} s")
    print(f"the engine waited {share:.0%} of the time for a core")
    assert sum(r.cached_tokens for r in result.served) == sum(answer.cached_tokens for answer in played)
    if share > MOST_WAITED:
        pytest.skip(f"the engine had to wait {share:.0%} of the time for a core: what it takes cannot be predicted")
    assert result.first_token.mean == pytest.approx(measured, rel=0.2)
