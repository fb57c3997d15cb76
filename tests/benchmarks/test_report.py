"""From runs to ratios."""

from __future__ import annotations

import pytest
from benchmarks.answers import CHUNKS
from benchmarks.report import as_json, tables
from benchmarks.results import MIXED, OURS, PEER, UNWATCHED, VLLM, WATCHED, Results, verdicts
from benchmarks.scenarios import PAIR_REQUESTS, PAIR_STREAM, REQUESTS, STREAM, TELEMETRY_SCENARIOS
from rich.console import Console

BASE = REQUESTS[0]


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


def with_pairs() -> Results:
    results = results_with([50], [100])
    for name, value in ((OURS, 120.0), (PEER, 300.0), (MIXED, 60.0), (VLLM, 150.0)):
        row = results.row(PAIR_REQUESTS[0], name)
        row.cpu_us, row.requests, row.requests_per_second, row.busy = [value], 10, [1.0], [1.0]
    return results


def test_pairs_are_compared_with_the_peer_and_with_mixed_workers():
    to_peer, to_mixed = verdicts(with_pairs())[1:]
    assert (to_peer.against, to_peer.ratio, to_peer.target, to_peer.met) == (PEER, pytest.approx(0.4), 0.6, True)
    assert (to_mixed.against, to_mixed.ratio, to_mixed.target) == (MIXED, pytest.approx(2.0), 2.2)
    assert to_mixed.cost_us[VLLM] == 150


def test_a_chunk_from_a_pair_is_compared_with_a_plain_request_to_a_pair():
    results = with_pairs()
    for name, value in ((OURS, 120 + 10 * CHUNKS), (PEER, 300 + 40 * CHUNKS)):
        row = results.row(PAIR_STREAM, name)
        row.cpu_us, row.requests = [value], 1
    chunk = verdicts(results)[-1]
    assert chunk.cost_us == {OURS: pytest.approx(10), PEER: pytest.approx(40)}


def test_tables_show_pairs_with_both_ratios():
    console = Console(width=110)
    with console.capture() as shown:
        for table in tables(with_pairs()):
            console.print(table)
    lines = [line for line in shown.get().splitlines() if "PD 1 KB, per request" in line]
    assert ["0.40" in line and "0.60" in line for line in lines] == [True, False]
    assert "2.00" in lines[1]
    assert "2.20" in lines[1]


def test_telemetry_is_compared_with_none_in_a_table_of_its_own():
    results = results_with([50], [100])
    for name, value in ((WATCHED, 105.0), (UNWATCHED, 100.0)):
        row = results.row(TELEMETRY_SCENARIOS[0], name)
        row.cpu_us, row.requests, row.requests_per_second, row.busy = [value], 10, [1.0], [1.0]
    line = verdicts(results)[-1]
    assert (line.against, line.ratio, line.target, line.met) == (UNWATCHED, pytest.approx(1.05), 1.08, True)
    titles = [str(table.title) for table in tables(results)]
    assert titles[1] == "What telemetry costs"
