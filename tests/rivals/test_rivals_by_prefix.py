"""The rivals that first look for a prefix: when they follow it, and what makes them leave it."""

from __future__ import annotations

from random import Random

import pytest
from tests.support.pools import choices, make_worker, rows

from warmroute.prompts.prompt import Prompt
from warmroute.rivals.aibrix_prefix_cache import aibrix_prefix_cache
from warmroute.rivals.bounded_hash import BoundedHash
from warmroute.rivals.llm_d_sticky import LlmDSticky
from warmroute.rivals.preble import Preble
from warmroute.rivals.ray_prefix_affinity import RayPrefixAffinity
from warmroute.rivals.sglang_cache_aware import SglangCacheAware
from warmroute.rivals.smg_cache_aware import SmgCacheAware

PROMPT = Prompt(tokens=1000)


@pytest.mark.parametrize(("running", "expected"), [(64, "warm"), (65, "idle")])
def test_sglang_leaves_the_prefix_when_the_fleet_is_out_of_balance(running: int, expected: str):
    workers = [make_worker("idle"), make_worker("warm", matched=301, running=running)]
    assert choices(SglangCacheAware(), workers, PROMPT, 20) == {expected: 20}


def test_sglang_keeps_balance_as_long_as_no_one_has_half_as_much_again():
    workers = [make_worker("less", running=200), make_worker("warm", matched=301, running=300)]
    assert choices(SglangCacheAware(), workers, PROMPT, 20) == {"warm": 20}


def test_sglang_grows_the_smallest_tree_on_a_short_match():
    workers = [make_worker("w0", matched=300), make_worker("w1", matched=300)]
    assert choices(SglangCacheAware(), workers, PROMPT, 20) == {"w0": 10, "w1": 10}


def test_sglang_stays_with_the_last_tenant():
    first, second = make_worker("first"), make_worker("second")
    rival = SglangCacheAware()
    last = rival(rows([first, second]), PROMPT, Random(1)).worker.id
    first.candidate.matched_tokens = second.candidate.matched_tokens = 900
    assert choices(rival, [first, second], PROMPT, 20) == {last: 20}


@pytest.mark.parametrize(("running", "expected"), [(4, "warm"), (5, "idle")])
def test_smg_gates_the_worker_that_is_busier_than_the_mean(running: int, expected: str):
    """Of 8 workers one runs 5: mean 0.625 and 2 sigma 3.3, so the bound is 0.625 + 4. With 4 it is 0.5 + 4."""
    workers = [*(make_worker(f"idle{n}") for n in range(7)), make_worker("warm", matched=500, running=running)]
    (picked,) = choices(SmgCacheAware(), workers, PROMPT, 1)
    assert picked.startswith(expected)


@pytest.mark.parametrize(("gap", "expected"), [(100, "warm"), (101, "idle")])
def test_llm_d_sticks_until_the_gap_is_too_wide(gap: int, expected: str):
    workers = [make_worker("idle", pending=50), make_worker("warm", matched=800, pending=50 + gap)]
    assert choices(LlmDSticky(gap_tokens=100), workers, PROMPT, 300)[expected] >= 290


def test_llm_d_sticks_to_four_fifths_of_the_prompt():
    workers = [make_worker("idle", pending=1), make_worker("warm", matched=799, pending=2)]
    assert choices(LlmDSticky(), workers, PROMPT, 20) == {"idle": 20}


def test_llm_d_explores_one_time_in_a_hundred():
    workers = [make_worker("idle"), make_worker("warm", matched=1000, pending=1)]
    assert 10 <= choices(LlmDSticky(), workers, PROMPT, 3000)["idle"] <= 60


def test_aibrix_takes_the_best_match_that_is_not_overloaded():
    best = make_worker("best", matched=900, running=5)
    good = make_worker("good", matched=500, running=1)
    idle = make_worker("idle")
    assert choices(aibrix_prefix_cache, [best, good, idle], PROMPT, 20) == {"good": 20}
    best.load.running_requests = 2
    good.load.running_requests = 2
    assert choices(aibrix_prefix_cache, [best, good, idle], PROMPT, 20) == {"best": 20}


def test_aibrix_goes_by_load_when_running_requests_differ_by_more_than_8():
    workers = [make_worker("idle"), make_worker("warm", matched=900, running=9), make_worker("w", running=8)]
    assert choices(aibrix_prefix_cache, workers, PROMPT, 20) == {"idle": 20}


def test_preble_exploits_a_long_match_and_explores_otherwise():
    workers = [make_worker("idle"), make_worker("warm", matched=501)]
    assert choices(Preble(), workers, PROMPT, 5) == {"warm": 5}
    workers[1].candidate.matched_tokens = 100
    picked = choices(Preble(), workers, PROMPT, 100)
    assert 45 <= picked["idle"] <= 49


def test_preble_forgets_what_is_older_than_its_window():
    rival, workers = Preble(window=1), [make_worker("a"), make_worker("b")]
    names = [rival(rows(workers), PROMPT, Random(1)).worker.id for _ in range(6)]
    assert names[0] != names[1]
    assert names[:2] * 3 == names


@pytest.mark.parametrize(("matched", "least", "most"), [(99, 9, 11), (100, 20, 20)])
def test_ray_follows_a_tenth_of_the_prompt_whatever_the_load(matched: int, least: int, most: int):
    workers = [make_worker("idle"), make_worker("warm", matched=matched, running=50)]
    assert least <= choices(RayPrefixAffinity(), workers, PROMPT, 20)["warm"] <= most


def test_bounded_hash_keeps_a_session_until_its_worker_is_full():
    workers = [make_worker(f"w{n}", running=4) for n in range(4)]
    rival, prompt = BoundedHash(), Prompt(tokens=9, session_id="s")
    (home,) = choices(rival, workers, prompt, 20)
    by_name = {worker.id: worker for worker in workers}
    # 21 requests with the new one: ceil(1.25 x 21 / 4) = 7 are too many.
    by_name[home].load.running_requests = 7
    assert home not in choices(rival, workers, prompt, 20)


def test_bounded_hash_goes_by_the_head_of_a_prompt_without_session():
    workers = [make_worker(f"w{n}") for n in range(16)]
    rival = BoundedHash()
    heads = [list(range(head, head + 16)) for head in range(0, 160, 16)]
    for head in heads:
        assert len(choices(rival, workers, Prompt(tokens=9, fingerprint=head), 10)) == 1
        assert choices(rival, workers, Prompt(tokens=9, fingerprint=head), 1) == choices(
            rival, workers, Prompt(tokens=9, fingerprint=[*head, 999]), 1
        )
