"""The engine in virtual time: what happens when, to the exact second."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.simulation.core import EngineCore
from warmroute.simulation.job import Job
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import encode_text

BLOCK = 16


def engine(*, cache_tokens: int = 4096, max_running: int = 8, **timing: float) -> EngineCore:
    """64 prompt tokens and 4 answer tokens a second; binary fractions, so that times are exact."""
    speeds = {"prefill_speed": 64.0, "decode_speed": 4.0, "batch_slowdown": 0.0, **timing}
    return EngineCore(Timing(**speeds), KvCache(cache_tokens, BLOCK), max_running)


def job(letter: str, tokens: int, answer: int = 4) -> Job:
    return Job(encode_text(letter * 4 * tokens), answer)


def token_times(core: EngineCore, jobs: list[Job]) -> list[list[float]]:
    """Run until nothing is due; when each token of each job came."""
    times: list[list[float]] = [[] for _ in jobs]
    while (now := core.next_due) < math.inf:
        core.advance(now)
        core.take_touched()
        for seen, one in zip(times, jobs, strict=True):
            seen.extend([now] * (len(one.words) - len(seen)))
    return times


def test_one_request_alone():
    """128 tokens at 64 a second: the first answer token after two seconds, then four a second."""
    core, one = engine(), job("a", 128)
    core.submit(one, 0.0)
    assert token_times(core, [one]) == [[2.0, 2.25, 2.5, 2.75]]
    assert one.finish_reason == "length"
    assert core.running == 0


def test_prompts_are_prefilled_one_after_the_other():
    """Three prompts of one second each; while the first prefills, the others wait."""
    core = engine()
    jobs = [job(letter, 64, 1) for letter in "abc"]
    for one in jobs:
        core.submit(one, 0.0)
    assert (core.running, len(core.waiting)) == (1, 2)
    assert token_times(core, jobs) == [[1.0], [2.0], [3.0]]


def test_a_bigger_batch_is_slower():
    """Half a step more for the second request: a step takes 0.25 s alone, 0.375 s for two."""
    core = engine(batch_slowdown=0.5)
    jobs = [job("a", 64, 9), job("b", 64, 3)]
    for one in jobs:
        core.submit(one, 0.0)
    first, second = token_times(core, jobs)
    assert first == [1.0, 1.25, 1.5, 1.75, 2.0, 2.375, 2.75, 3.0, 3.25]
    assert second == [2.0, 2.375, 2.75]


def test_a_request_joins_when_the_step_under_way_ends():
    """The second prefill ends at 1.125, in the middle of a step; its next token comes with the step from 1.25 on."""
    core = engine()
    jobs = [job("a", 64, 4), job("b", 8, 2)]
    for one in jobs:
        core.submit(one, 0.0)
    assert token_times(core, jobs) == [[1.0, 1.25, 1.5, 1.75], [1.125, 1.5]]


def test_what_is_cached_costs_nothing():
    """The second time all whole blocks but the last token's are there: 16 of 128 tokens are computed."""
    core, first, again = engine(), job("a", 128, 1), job("a", 128, 1)
    core.submit(first, 0.0)
    core.advance(2.0)
    core.submit(again, 10.0)
    assert token_times(core, [again]) == [[10.25]]
    assert (first.cached_tokens, again.cached_tokens) == (0, 112)
    assert (core.prompt_tokens_total, core.cached_tokens_total) == (256, 112)


def test_a_prompt_behind_its_twin_finds_it_cached():
    """What counts is the cache when the prefill begins, not when the request arrives."""
    core, jobs = engine(), [job("a", 128, 1), job("a", 128, 1)]
    for one in jobs:
        core.submit(one, 0.0)
    assert token_times(core, jobs) == [[2.0], [2.25]]


def test_the_answer_is_cached_for_the_next_turn():
    """A prompt that goes on where an answer ended hits the whole blocks of prompt and answer."""
    core, first = engine(), job("a", 20, 61)
    core.submit(first, 0.0)
    token_times(core, [first])
    after = Job(first.prompt + encode_text("".join(first.words)) + encode_text("next"), 1)
    core.submit(after, 100.0)
    assert after.cached_tokens == (20 + 61 - 1) // BLOCK * BLOCK


def test_the_last_answer_token_is_not_in_the_cache_yet():
    core, first = engine(), job("a", 16, 16)
    core.submit(first, 0.0)
    token_times(core, [first])
    after = Job(first.prompt + encode_text("".join(first.words)) + encode_text("next"), 1)
    core.submit(after, 100.0)
    assert after.cached_tokens == 16


def test_salts_do_not_share():
    core, first = engine(), job("a", 64, 1)
    core.submit(first, 0.0)
    core.advance(1.0)
    salted = Job(first.prompt, 1, salt=5)
    core.submit(salted, 1.0)
    assert salted.cached_tokens == 0


def test_the_rest_waits_when_enough_run():
    """With two at a time the third begins its prefill when the first has ended."""
    core = engine(max_running=2)
    jobs = [job("a", 16, 5), job("b", 16, 9), job("c", 16, 1)]
    for one in jobs:
        core.submit(one, 0.0)
    core.advance(0.5)
    assert (core.running, len(core.waiting)) == (2, 1)
    assert token_times(core, jobs)[2] == [1.25 + 0.25]


def test_a_request_waits_until_the_cache_has_room():
    """Two requests of 96 tokens do not fit in 128 at once: the second begins when the first has ended."""
    core = engine(cache_tokens=128)
    jobs = [job("a", 64, 32), job("b", 64, 32)]
    for one in jobs:
        core.submit(one, 0.0)
    first, second = token_times(core, jobs)
    assert second[0] == first[-1] + 1.0


def test_only_what_can_ever_run_fits():
    core = engine(cache_tokens=128)
    assert core.fits(job("a", 120, 8))
    assert not core.fits(job("a", 120, 9))


def test_abort_in_the_queue_in_prefill_and_in_decode():
    """Each frees its place at once."""
    core = engine(max_running=2)
    decoding, prefilling, waiting, last = (job(letter, 64, 100) for letter in "abcd")
    for one in (decoding, prefilling, waiting, last):
        core.submit(one, 0.0)
    core.advance(1.5)
    core.abort(waiting, 1.5)
    core.abort(prefilling, 1.5)
    assert [one.finish_reason for one in (decoding, prefilling, waiting)] == [None, "abort", "abort"]
    core.advance(2.5)
    assert len(last.words) == 1
    core.abort(decoding, 2.5)
    core.abort(last, 2.5)
    assert (core.running, len(core.waiting), core.cache.used) == (0, 0, 0)


def test_an_aborted_answer_leaves_what_it_computed():
    """The prompt and the whole blocks of the answer so far."""
    core, one = engine(), job("a", 64, 100)
    core.submit(one, 0.0)
    core.advance(6.0)
    words = len(one.words)
    core.abort(one, 6.0)
    after = Job(one.prompt + encode_text("".join(one.words)) + encode_text("next"), 1)
    core.submit(after, 6.0)
    assert words > BLOCK
    assert after.cached_tokens == (64 + words - 1) // BLOCK * BLOCK


def test_aborting_twice_is_once():
    core, one = engine(), job("a", 64)
    core.submit(one, 0.0)
    core.abort(one, 0.0)
    core.abort(one, 0.0)
    assert core.finished_total == {"abort": 1}


def test_the_same_prompt_has_the_same_answer():
    first, again = job("a", 64), job("a", 64)
    for one in (first, again):
        core = engine()
        core.submit(one, 0.0)
        token_times(core, [one])
    assert first.words == again.words


@settings(max_examples=60)
@given(st.data())
def test_any_mixture_ends_and_gives_everything_back(data):
    """Whatever comes, waits and is aborted: limits hold at any moment, and at the end nothing is held."""
    core = engine(cache_tokens=512, max_running=3, batch_slowdown=0.1)
    jobs: list[Job] = []
    now = 0.0
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.sampled_from([0.0, 0.1, 1.0]))
        if jobs and data.draw(st.booleans()):
            core.abort(data.draw(st.sampled_from(jobs)), now)
        else:
            jobs.append(
                job(data.draw(st.sampled_from("ab")), data.draw(st.integers(1, 200)), data.draw(st.integers(1, 40)))
            )
            core.submit(jobs[-1], now)
        assert core.running <= 3
        assert core.cache.used + core.cache.idle <= core.cache.capacity
    token_times(core, jobs)
    assert all(one.finish_reason for one in jobs)
    assert all(len(one.words) == one.max_tokens for one in jobs if one.finish_reason == "length")
    assert (core.running, len(core.waiting), core.cache.used) == (0, 0, 0)
    assert core.finished_total.total() == len(jobs)
    assert core.prompt_tokens_total >= core.cached_tokens_total


def test_time_is_told_in_order():
    """One long pause gives the same tokens as many short ones."""
    patient, eager = engine(batch_slowdown=0.5), engine(batch_slowdown=0.5)
    ends = []
    for core, stops in ((patient, [50.0]), (eager, [at / 8 for at in range(401)])):
        jobs = [job("a", 70, 9), job("b", 33, 5), job("c", 5, 7)]
        for one in jobs:
            core.submit(one, 0.0)
        for stop in stops:
            core.advance(stop)
        ends.append(([one.words for one in jobs], core.generated_tokens_total))
    assert ends[0] == ends[1]
    assert ends[0][1] == pytest.approx(21)
