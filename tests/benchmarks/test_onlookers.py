"""Who looks at a router in the benchmark."""

from __future__ import annotations

import sys

import pytest
from benchmarks.measure import Row, measure, mock_workers, running
from benchmarks.onlookers import live_page
from benchmarks.processes import Child, Cores
from benchmarks.routers import watched
from benchmarks.scenarios import CACHE_TOKENS, TELEMETRY_SCENARIOS


async def test_a_router_that_is_looked_at_serves_and_is_traced(tmp_path):
    cores = Cores.of_machine()
    with Child([sys.executable, "-m", "benchmarks.onlookers"], cores.mocks) as collector:
        router = watched("looked at", f"http://127.0.0.1:{int(collector.read_line())}")
        with mock_workers(cores, CACHE_TOKENS) as (_, ports), running(router, ports, cores, tmp_path) as target:
            async with live_page(target.port):
                row = Row()
                await measure(target, TELEMETRY_SCENARIOS[0], TELEMETRY_SCENARIOS[0].prompts(), 1.5, row)
    assert row.valid, row.errors
    assert (tmp_path / "looked at.log").read_text() == ""


async def test_a_port_without_a_live_page_is_told():
    with mock_workers(Cores.of_machine(), CACHE_TOKENS) as (_, ports), pytest.raises(ConnectionError, match="no live"):
        async with live_page(ports[0]):
            pass
