"""The recorded airline conversations of tau-bench, where they are at hand."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from warmroute.simulation.core import EngineCore
from warmroute.simulation.job import Job
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.load.readers import read_sessions
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import encode_chat

TRACES = os.environ.get("TRACES_DIRECTORY")
pytestmark = pytest.mark.skipif(not TRACES, reason="TRACES_DIRECTORY is not set")


def test_one_idle_engine_finds_nearly_everything_cached():
    """2,454 requests in 200 conversations; an uncontended cache of 20,000 tokens serves 94 % of the prompts."""
    sessions = read_sessions(Path(TRACES or "") / "tau-bench" / "gpt-4o-airline.raw.json.gz")
    core = EngineCore(Timing(), KvCache(20_000, 16), 1)
    requests, now = 0, 0.0
    for session in sessions:
        for turn in range(len(session)):
            body = session.body(turn, [])
            core.submit(Job(encode_chat(body["messages"]), body["max_tokens"]), now)
            while core.next_due < math.inf:
                now = core.next_due
                core.advance(now)
            core.take_touched()
            requests += 1
    assert (len(sessions), requests) == (200, 2454)
    assert core.cached_tokens_total / core.prompt_tokens_total == pytest.approx(0.94, abs=0.005)
