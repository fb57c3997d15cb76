"""remote_cache_aware: cache_aware over the running requests that the engines report."""

from __future__ import annotations

from tests.support.pools import choices, make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policies.remote_cache_aware import RemoteCacheAware
from warmroute.scheduling.worker import EngineReport

PROMPT = Prompt(tokens=1000)


def test_reported_requests_weigh_not_ours():
    """Somebody else keeps the warm worker busy: 8 x 125 tokens are more than its match of 900 saves."""
    workers = [
        make_worker("warm", matched=900, report=EngineReport(running_requests=8, waiting_requests=0)),
        make_worker("cold", running=5, report=EngineReport(running_requests=0, waiting_requests=0)),
    ]
    assert choices(RemoteCacheAware(), workers, PROMPT, 20) == {"cold": 20}


def test_without_a_fresh_report_our_own_requests_weigh():
    workers = [make_worker("warm", matched=900, running=8), make_worker("cold", running=0)]
    assert choices(RemoteCacheAware(), workers, PROMPT, 20) == {"cold": 20}


def test_pending_tokens_are_always_ours():
    """Between two polls they are what keeps a burst from running to one worker."""
    idle = EngineReport(running_requests=0, waiting_requests=0)
    workers = [make_worker("a", pending=1, report=idle), make_worker("b", report=idle)]
    assert choices(RemoteCacheAware(), workers, PROMPT, 20) == {"b": 20}


def test_thresholds_look_at_reported_requests():
    workers = [
        make_worker("warm", matched=1000, pending=1, report=EngineReport(running_requests=5, waiting_requests=0)),
        make_worker("idle", report=EngineReport(running_requests=0, waiting_requests=0)),
    ]
    assert choices(RemoteCacheAware(), workers, PROMPT, 20) == {"warm": 20}
    assert choices(RemoteCacheAware(balance_abs_threshold=4), workers, PROMPT, 20) == {"idle": 20}


def test_a_tie_goes_either_way():
    assert 430 < choices(RemoteCacheAware(), [make_worker("a"), make_worker("b")], PROMPT, 1000)["a"] < 570
