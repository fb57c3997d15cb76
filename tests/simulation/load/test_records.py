"""How measurements are summed up."""

import pytest

from warmroute.simulation.load.records import Record, Spread, percentile, summarise


def test_percentiles_lie_between_neighbours():
    values = [10.0, 20.0, 30.0, 40.0, 50.0]
    assert [percentile(values, share) for share in (0, 0.5, 0.9, 1)] == pytest.approx([10, 30, 46, 50])
    assert percentile([7.0], 0.99) == 7.0


def test_a_spread_sorts_for_itself():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(mean=2.0, p50=2.0, p90=pytest.approx(2.8), p99=pytest.approx(2.98))
    assert Spread.of([]) is None


def test_only_complete_answers_count_but_every_failure_is_told():
    def good(worker: str) -> Record:
        return Record(None, 0.1, 1.0, prompt_tokens=100, cached_tokens=75, output_tokens=20, worker=worker)

    records = [good("a"), good("a"), good("b"), Record("HTTP 503", None, 9.0), Record("timeout", 5.0, 9.0, 50)]
    summary = summarise(records, elapsed_seconds=2.0, planned=8)
    assert (summary.requests, summary.failed, summary.not_sent) == (5, 2, 3)
    assert summary.errors == {"HTTP 503": 1, "timeout": 1}
    assert summary.cached_share == 0.75
    assert summary.output_tokens_per_second == 30.0
    assert summary.first_token == Spread(*[pytest.approx(0.1)] * 4)
    assert summary.workers == {"a": 2, "b": 1}
    assert summary.busiest_over_mean == pytest.approx(4 / 3)


def test_nothing_measured_is_not_zero():
    summary = summarise([], 0.0, planned=0)
    assert (summary.cached_share, summary.first_token, summary.busiest_over_mean) == (None, None, None)
    assert summary.as_dict()["first_token_seconds"] is None


def test_figures_for_json_are_plain():
    figures = summarise([Record(None, 0.1, 0.2, 10, 5, 3, "w")], 1.0, 1).as_dict()
    assert figures["cached_share"] == 0.5
    assert figures["total_seconds"] == {"mean": 0.2, "p50": 0.2, "p90": 0.2, "p99": 0.2}
    assert figures["requests_per_worker"] == {"w": 1}
