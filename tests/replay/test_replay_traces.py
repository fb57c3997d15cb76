"""Hit shares of the published traces, against figures that were computed by others from the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warmroute.replay.cache import PathCache
from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.readers.read import read_trace
from warmroute.replay.run import run
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


def round_robin_share(trace: Trace, replicas: int) -> float:
    """As `hit_share` with infinite caches, each request on the next replica."""
    caches = [PathCache(10**12) for _ in range(replicas)]
    requests = sorted(
        (
            ((session.start or 0.0) + sum(turn.think for turn in session.turns[: at + 1]), number, turn)
            for number, session in enumerate(trace.sessions)
            for at, turn in enumerate(session.turns)
        ),
        key=lambda row: row[:2],
    )
    hits = 0
    for at, (_, _, turn) in enumerate(requests):
        cache, depth = caches[at % replicas], len(turn.blocks)
        hold = cache.acquire(turn.blocks, turn.ends, turn.ends[depth])
        assert hold is not None
        hits += turn.prompt_tokens if depth and hold.depth == depth else hold.matched_tokens
        cache.commit(hold, turn.blocks, turn.ends, depth)
        cache.release(hold)
    return hits / sum(turn.prompt_tokens for _, _, turn in requests)


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


@pytest.mark.parametrize(("name", "share"), [(CONVERSATION, 0.139), (SYNTHETIC, 0.231), (MINISWE, 0.555)])
def test_hit_share_of_eight_replicas_in_turn(name: str, share: float) -> None:
    assert round(round_robin_share(trace_of(name), 8), 3) == share


@pytest.mark.parametrize(
    ("name", "turns", "best"), [(CONVERSATION, 0.139, 0.374), (SYNTHETIC, 0.231, 0.651), (MINISWE, 0.555, 0.936)]
)
def test_a_replay_finds_the_same_shares(name: str, turns: float, best: float) -> None:
    """Engines that take no time and forget nothing; times within a tick, and the last token of a prompt, differ."""
    model = EngineModel(step=1e-9, prefill_token=0, attention=0, request=0, context=0, step_tokens=10**9)
    trace = trace_of(name)
    in_turn = run(trace, "round_robin", Fleet(8, model, 10**12))
    alone = run(trace, "round_robin", Fleet(1, model, 10**12))
    assert in_turn.hit_share == pytest.approx(turns, abs=0.015)
    assert alone.hit_share == pytest.approx(best, abs=0.015)
