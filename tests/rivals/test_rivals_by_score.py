"""The rivals with one score: the figures at which their choice turns."""

from __future__ import annotations

import pytest
from tests.support.pools import choices, make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.rivals.dynamo import Dynamo
from warmroute.rivals.llm_d_default import llm_d_default
from warmroute.rivals.lmetric import lmetric
from warmroute.rivals.mooncake_min_ttft import mooncake_min_ttft
from warmroute.rivals.oracle import Oracle
from warmroute.scheduling.worker import EngineReport, Worker

PROMPT = Prompt(tokens=1000)


@pytest.mark.parametrize(("matched", "expected"), [(499, "idle"), (501, "warm")])
def test_lmetric_multiplies_new_tokens_by_the_batch(matched: int, expected: str):
    """One running request doubles what the warm worker has to compute."""
    workers = [make_worker("idle"), make_worker("warm", matched=matched, running=1)]
    assert choices(lmetric, workers, PROMPT, 20) == {expected: 20}


@pytest.mark.parametrize(("active", "scale", "expected"), [(799, 1, "warm"), (801, 1, "idle"), (801, 2, "warm")])
def test_dynamo_adds_decode_load_to_prefill_load(active: int, scale: float, expected: str):
    warm = make_worker("warm", matched=900, pending=100)
    warm.load.active_tokens = active
    assert choices(Dynamo(scale), [make_worker("idle"), warm], PROMPT, 20) == {expected: 20}


@pytest.mark.parametrize(("pending", "expected"), [(899, "warm"), (901, "idle")])
def test_mooncake_compares_predicted_times(pending: int, expected: str):
    workers = [make_worker("idle"), make_worker("warm", matched=900, pending=pending)]
    assert choices(mooncake_min_ttft, workers, PROMPT, 20) == {expected: 20}


@pytest.mark.parametrize(("matched", "expected"), [(666, "idle"), (668, "warm")])
def test_llm_d_default_gives_2_for_the_queue_and_3_for_the_prefix(matched: int, expected: str):
    workers = [make_worker("idle"), make_worker("warm", matched=matched, running=1)]
    assert choices(llm_d_default, workers, PROMPT, 20) == {expected: 20}


def test_llm_d_default_gives_2_for_free_cache():
    full = make_worker("full", matched=660, cache_tokens=1000)
    full.load.active_tokens = 1000
    assert choices(llm_d_default, [make_worker("idle"), full], PROMPT, 20) == {"idle": 20}
    full.load.active_tokens = 980
    assert choices(llm_d_default, [make_worker("idle"), full], PROMPT, 20) == {"full": 20}


def test_llm_d_default_reads_the_queue_that_the_engine_reports():
    waits = make_worker("waits", report=EngineReport(running_requests=0, waiting_requests=3))
    serves = make_worker("serves", running=9, report=EngineReport(running_requests=9, waiting_requests=0))
    assert choices(llm_d_default, [waits, serves], PROMPT, 20) == {"serves": 20}


def test_the_oracle_takes_what_it_foresees():
    def foresee(worker: Worker, prompt: Prompt) -> float:
        return {"late": 2.0, "soon": 1.0}[worker.id]

    assert choices(Oracle(foresee), [make_worker("late"), make_worker("soon")], PROMPT, 20) == {"soon": 20}
