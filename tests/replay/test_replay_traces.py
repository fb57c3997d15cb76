"""Hit shares of the published traces, against figures that were computed by others from the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warmroute.replay.cache import PathCache
from warmroute.replay.readers.read import read_trace
from warmroute.replay.trace import Trace

TRACES = os.environ.get("TRACES_DIRECTORY")
pytestmark = [pytest.mark.skipif(not TRACES, reason="TRACES_DIRECTORY is not set"), pytest.mark.timeout(180)]

CONVERSATION = "mooncake/conversation_trace.jsonl"
SYNTHETIC = "mooncake/synthetic_trace.jsonl"
CLAUDE_CODE = "kv-cache-tester/claude_code_le128k.rle.jsonl"
RAGPULSE = "ragpulse/ragpulse.chunks.jsonl"
TAU_BENCH = "tau-bench/gpt4o_airline.rle.jsonl"
MINISWE = "lmcache-agent/miniswe.rle.jsonl"


def trace_of(name: str) -> Trace:
    return read_trace(Path(TRACES or "") / name)


def hit_share(trace: Trace, capacity: float, block: int | None = None) -> float:
    """Of one pool, requests in their order, prompts only; a prompt that is there whole counts whole.

    With `block`, every block takes the room of so many tokens, also a partial one.
    """
    cache = PathCache(int(capacity) // (block or 1) * (block or 1))
    hits = total = 0
    for session in trace.sessions:
        for turn in session.turns:
            depth = len(turn.blocks)
            ends = turn.ends if block is None else range(0, (depth + 1) * block, block)
            hold = cache.acquire(turn.blocks, ends, ends[depth])
            assert hold is not None
            is_whole = depth and hold.depth == depth
            hits += turn.prompt_tokens if is_whole else hold.matched_tokens
            total += turn.prompt_tokens
            cache.commit(hold, turn.blocks, ends, depth)
            cache.release(hold)
    return hits / total


@pytest.mark.parametrize(
    ("name", "requests", "share"),
    [
        (CONVERSATION, 12_031, 0.374),
        (SYNTHETIC, 3_993, 0.651),
        (CLAUDE_CODE, 9_342, 0.958),
        (RAGPULSE, 7_106, 0.314),
        (TAU_BENCH, 2_454, 0.939),
        (MINISWE, 402, 0.936),
    ],
)
def test_hit_share_of_an_infinite_cache(name: str, requests: int, share: float) -> None:
    trace = trace_of(name)
    assert trace.requests == requests
    assert round(hit_share(trace, 1e12), 3) == share


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        (CONVERSATION, (0.043, 0.054, 0.139, 0.291, 0.366, 0.371)),
        (SYNTHETIC, (0.055, 0.145, 0.315, 0.577, 0.651, 0.651)),
    ],
)
def test_hit_share_of_bounded_caches(name: str, shares: tuple[float, ...]) -> None:
    trace = trace_of(name)
    assert tuple(round(hit_share(trace, tokens, 512), 3) for tokens in (0.3e6, 1e6, 3e6, 10e6, 30e6, 50e6)) == shares
