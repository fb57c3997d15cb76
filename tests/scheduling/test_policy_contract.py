"""What every policy owes the scheduler. Runs over all that are installed, so a new file is covered by being there."""

from __future__ import annotations

import inspect
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.pools import make_worker, rows

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policy import NamedPolicy, bare, reads_matches
from warmroute.scheduling.registry import create_policy, policy_names, policy_options
from warmroute.scheduling.worker import EngineReport

CONTRACT_NAMES = {
    "random", "round_robin", "power_of_two", "process_tokens", "request_num", "fd_metrics_score",
    "fd_remote_metrics_score", "fd_remote_metrics_max_gpu_block", "cache_aware", "remote_cache_aware",
}  # fmt: skip

every_policy = pytest.mark.parametrize("name", policy_names())

REPORTS = st.none() | st.builds(
    EngineReport,
    running_requests=st.integers(0, 20).map(float),
    waiting_requests=st.integers(0, 3).map(float),
    free_kv_blocks=st.none() | st.integers(0, 100).map(float),
)
WORKERS = st.lists(
    st.builds(
        make_worker,
        running=st.integers(0, 9),
        pending=st.integers(0, 5000),
        matched=st.integers(0, 900),
        report=REPORTS,
    ),
    min_size=1,
    max_size=6,
)


def make(name: str, **options: float) -> NamedPolicy:
    return create_policy(name, SchedulerConfig(**options))


def test_the_names_of_the_contract_exist():
    assert set(policy_names()) >= CONTRACT_NAMES


@every_policy
@given(workers=WORKERS, tokens=st.integers(900, 4000), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None, database=None)
def test_returns_one_of_its_candidates_and_changes_nothing(name: str, workers: list, tokens: int, seed: int):
    def figures():
        return [(w.load.running_requests, w.load.pending_prefill_tokens, w.candidate.matched_tokens) for w in workers]

    candidates, before = rows(workers), figures()
    policy = make(name, balance_abs_threshold=3, balance_rel_threshold=0.5)
    assert policy(candidates, Prompt(tokens=tokens), Random(seed)) in candidates
    assert candidates == rows(workers)
    assert figures() == before


@every_policy
def test_equal_workers_get_equal_shares(name: str):
    """Nobody is first in line: cold start and light traffic must not pile up on one worker."""
    workers = [make_worker(f"w{n}") for n in range(4)]
    policy, rng = make(name), Random(5)
    picked = [policy(rows(workers), Prompt(tokens=10), rng).worker.id for _ in range(2000)]
    assert all(math.isclose(picked.count(worker.id), 500, abs_tol=80) for worker in workers)


@every_policy
def test_the_same_seed_gives_the_same_choices(name: str):
    """All chance comes from the rng that is handed in, so a replay repeats."""
    workers = [make_worker(f"w{n}") for n in range(5)]

    def run() -> list[str]:
        policy, rng = make(name), Random(42)
        return [policy(rows(workers), Prompt(tokens=10), rng).worker.id for _ in range(50)]

    assert run() == run()


@every_policy
def test_its_docstring_is_its_page(name: str):
    target = make(name).choose
    module = inspect.getmodule(target if inspect.isfunction(target) else type(target))
    text = inspect.getdoc(module) or ""
    assert text.startswith(f"{name}: ")
    for heading in ("Use when:", "Reads:", "Options:"):
        assert heading in text
    assert all(option in text or "as cache_aware" in text for option in policy_options(name))


@every_policy
@given(workers=WORKERS, matched=st.lists(st.integers(0, 900), min_size=6, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None, database=None)
def test_who_says_that_matches_are_not_read_decides_alike_whatever_they_are(
    name: str, workers: list, matched: list[int], seed: int
):
    policy = make(name)
    if reads_matches(bare(policy)):
        return
    first = policy(rows(workers), Prompt(tokens=1000), Random(seed))
    for worker, tokens in zip(workers, matched, strict=False):
        worker.candidate.matched_tokens = tokens
    assert make(name)(rows(workers), Prompt(tokens=1000), Random(seed)) is first
