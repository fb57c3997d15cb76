"""kv_room: the smallest decode batch whose worker has room in its KV cache."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policies.kv_room import KvRoom
from warmroute.scheduling.worker import Worker


def decoding(name: str, running: int, held: int, cache: int = 10_000) -> Worker:
    """A decode worker with so many requests, whose prompts take so many tokens of its cache."""
    worker = make_worker(name, role="decode", running=running, cache_tokens=cache)
    worker.load.active_tokens = held
    return worker


def test_with_room_everywhere_the_smallest_batch_decides():
    workers = [decoding("few", 1, 8000), decoding("many", 2, 1000)]
    assert choices(KvRoom(), workers, Prompt(tokens=1000), 20) == {"few": 20}


def test_a_cache_without_room_for_the_prompt_and_answers_is_left_alone():
    workers = [decoding("few", 1, 8000), decoding("many", 50, 1000)]
    assert choices(KvRoom(), workers, Prompt(tokens=1001), 20) == {"many": 20}


def test_room_is_each_workers_own():
    workers = [decoding("small", 1, 8000, 10_000), decoding("large", 2, 8000, 20_000)]
    assert choices(KvRoom(), workers, Prompt(tokens=2000), 20) == {"large": 20}


def test_with_room_nowhere_the_cache_that_is_fullest_by_the_smallest_part_is_taken():
    workers = [decoding("a", 1, 10_000), decoding("b", 9, 12_000, 20_000), decoding("c", 0, 9_500)]
    assert choices(KvRoom(), workers, Prompt(tokens=9000), 20) == {"b": 20}


def test_a_tie_goes_either_way():
    picked = choices(KvRoom(), [decoding("a", 1, 10), decoding("b", 1, 500)], times=1000)
    assert 430 < picked["a"] < 570


def test_a_worker_without_a_cache_is_no_error():
    assert choices(KvRoom(), [decoding("a", 0, 0, 0), decoding("b", 0, 0, 0)], times=20).total() == 20
