"""Workers, rows and pools."""

from __future__ import annotations

from tests.support.pools import make_worker, pool_of

from warmroute.scheduling.worker import EngineReport, Pool


def test_a_row_shows_its_workers_load_and_report_as_they_are_now():
    worker = make_worker("w")
    row = worker.candidate
    assert row.load is worker.load
    assert row.report is None
    worker.report = EngineReport(running_requests=1, waiting_requests=2)
    assert row.report is worker.report
    assert "w" in repr(worker)
    assert "running_requests=0" in repr(worker)


def test_a_pool_knows_its_members():
    a, b = make_worker("a"), make_worker("b")
    pool = pool_of([a], "decode")
    assert a.candidate in pool.members
    assert b.candidate not in pool.members
    assert pool == Pool("decode", (a.candidate,))
    assert Pool("mixed").members == frozenset()
