"""The engine in virtual time, when prompt and answer are computed by two of them."""

from __future__ import annotations

import math

from warmroute.simulation.core import EngineCore
from warmroute.simulation.job import Job
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import encode_text

BLOCK = 16
PROMPT = encode_text("abcd" * 64)


def engine(*, cache_tokens: int = 4096, max_running: int = 8) -> EngineCore:
    """64 prompt tokens and 4 answer tokens a second; binary fractions, so that times are exact."""
    timing = Timing(prefill_speed=64.0, decode_speed=4.0, batch_slowdown=0.0)
    return EngineCore(timing, KvCache(cache_tokens, BLOCK), max_running)


def receiver(prompt: bytes = PROMPT, answer: int = 4) -> Job:
    return Job(prompt, answer, receives=True)


def test_a_job_that_receives_holds_its_blocks_and_waits():
    core, job = engine(), receiver()
    core.submit(job, 0.0)
    assert job.receiving
    assert core.next_due == math.inf
    assert (core.running, core.cache.used) == (1, 5)


def test_what_was_received_is_not_computed():
    """The first token is there at once, or a decode step later."""
    for with_word, words in ((True, 1), (False, 0)):
        core, job = engine(), receiver()
        core.submit(job, 0.0)
        core.received(job, 10.0, with_word=with_word)
        assert len(job.words) == words
        assert core.next_due == 10.25
        core.advance(20.0)
        assert (len(job.words), job.finish_reason) == (4, "length")
        assert (core.received_tokens_total, core.cached_tokens_total) == (64, 0)


def test_both_engines_say_what_one_alone_says():
    alone, job = Job(PROMPT, 4), receiver()
    one, two = engine(), engine()
    one.submit(alone, 0.0)
    one.advance(100.0)
    two.submit(job, 0.0)
    two.received(job, 0.0, with_word=True)
    two.advance(100.0)
    assert job.words == alone.words


def test_received_blocks_are_shared_and_then_only_the_rest_is_missing():
    core, first, second = engine(), receiver(), receiver(PROMPT + encode_text("efgh" * 64))
    core.submit(first, 0.0)
    core.received(first, 0.0, with_word=True)
    core.submit(second, 0.0)
    assert second.cached_tokens == 64
    core.received(second, 1.0, with_word=True)
    assert core.received_tokens_total == 128


def test_receivers_pass_a_prefill_but_nobody_who_came_before():
    core = engine()
    first, second, third = Job(encode_text("1234" * 64), 1), Job(encode_text("5678" * 64), 1), receiver()
    early = receiver()
    for one in (first, early, second, third):
        core.submit(one, 0.0)
    assert early.receiving
    assert not third.receiving
    core.advance(1.0)
    assert third.receiving


def test_what_does_not_come_is_computed_before_all_that_wait():
    core, job, waiting = engine(max_running=2), receiver(), Job(encode_text("1234" * 64), 1)
    busy = Job(encode_text("5678" * 64), 1)
    for one in (job, busy, waiting):
        core.submit(one, 0.0)
    core.compute(job, 0.5)
    assert not job.receiving
    core.advance(1.0)
    core.advance(2.0)
    assert (len(job.words), len(waiting.words)) == (1, 0)
    core.advance(10.0)
    assert len(waiting.words) == 1
    assert core.received_tokens_total == 0


def test_an_abort_while_receiving_frees_everything():
    core, job = engine(), receiver()
    core.submit(job, 0.0)
    core.abort(job, 1.0)
    core.received(job, 2.0, with_word=True)
    core.compute(job, 2.0)
    assert (job.finish_reason, job.words, core.cache.used, core.running) == ("abort", [], 0, 0)


def test_an_abort_while_waiting_to_be_computed_frees_everything():
    core, job, busy = engine(), receiver(), Job(encode_text("5678" * 64), 1)
    core.submit(busy, 0.0)
    core.submit(job, 0.0)
    core.compute(job, 0.5)
    core.abort(job, 0.5)
    core.advance(10.0)
    assert (job.finish_reason, core.cache.used, len(core.waiting)) == ("abort", 0, 0)


def test_kept_blocks_stay_until_they_are_let_go():
    core, job = engine(cache_tokens=96), Job(PROMPT, 1, keeps_kv=True)
    next_one = Job(encode_text("1234" * 32), 1)
    core.submit(job, 0.0)
    core.advance(1.0)
    core.submit(next_one, 1.0)
    assert job.finish_reason == "length"
    assert (core.running, core.kept, core.cache.used, len(core.waiting)) == (0, 1, 5, 1)
    core.let_go(job, 5.0)
    core.let_go(job, 5.0)
    assert (core.kept, len(core.waiting)) == (0, 0)
    core.advance(5.5)
    assert next_one.words
    assert core.cache.used == 0


def test_an_aborted_job_keeps_nothing():
    core, job = engine(), Job(PROMPT, 8, keeps_kv=True)
    core.submit(job, 0.0)
    core.advance(1.0)
    core.abort(job, 1.0)
    assert (core.kept, core.cache.used) == (0, 0)


def test_an_answer_can_be_gone_on_with():
    """The tokens so far count as context to compute, and as part of the answer."""
    whole, rest = Job(PROMPT, 20), Job(PROMPT, 20, spoken=16)
    core = engine()
    core.submit(rest, 0.0)
    assert core.next_due == 1.25
    core.advance(100.0)
    other = engine()
    other.submit(whole, 0.0)
    other.advance(100.0)
    assert rest.words == whole.words
    assert rest.prompt_tokens == whole.prompt_tokens
    follower = Job(whole.prompt + "".join(whole.words).encode(), 1)
    core.submit(follower, 100.0)
    assert follower.cached_tokens == (64 + 19) // BLOCK * BLOCK
