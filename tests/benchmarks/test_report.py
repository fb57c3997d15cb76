"""From runs to ratios."""

from __future__ import annotations

import pytest
from benchmarks.mock_worker import CHUNKS
from benchmarks.report import BASE, OURS, PEER, Results, as_json, verdicts
from benchmarks.scenarios import STREAM


def results_with(ours: list[float], peer: list[float]) -> Results:
    results = Results({OURS: "1", PEER: "2"})
    for name, values in ((OURS, ours), (PEER, peer)):
        row = results.row(BASE, name)
        row.cpu_us, row.requests, row.requests_per_second, row.busy = values, 10, [1.0], [1.0]
    return results


def test_ratio_is_the_median_of_the_pairs():
    base = verdicts(results_with([10, 90, 40], [20, 100, 100]))[0]
    assert base.ratio == pytest.approx(0.5)
    assert base.met


def test_a_missed_target_is_told():
    assert verdicts(results_with([60], [100]))[0].met is False


def test_a_wrong_answer_takes_the_ratio_away():
    results = results_with([10], [20])
    results.row(BASE, OURS).failed = 1
    assert verdicts(results)[0].ratio is None
    assert not results.valid


def test_a_chunk_costs_what_the_stream_costs_beyond_a_plain_request():
    results = results_with([100], [200])
    for name, value in ((OURS, 100 + 15 * CHUNKS), (PEER, 200 + 30 * CHUNKS)):
        row = results.row(STREAM, name)
        row.cpu_us, row.requests = [value], 1
    chunk = verdicts(results)[-1]
    assert chunk.cost_us == {OURS: pytest.approx(15), PEER: pytest.approx(30)}
    assert chunk.ratio == pytest.approx(0.5)


def test_json_holds_every_run_and_the_verdict():
    written = as_json(results_with([10, 20], [40, 40]), {"rounds": 2})
    assert written["runs"][BASE.name][OURS]["cpu_us"] == [10, 20]
    assert written["comparison"][0]["ratio"] == pytest.approx(0.375)
    assert written["comparison"][0]["met"] is True
    assert written["versions"][PEER] == "2"
