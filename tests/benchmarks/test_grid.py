"""The evaluation grid: its halves, its saturation rates, and what it makes of figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.grid.cells import TOLERATED_SECONDS, Cell, Figures, Setting, measure, play, saturation
from benchmarks.grid.report import cells_table, policies_table, summary
from benchmarks.grid.verdicts import BOUND, average, contenders, geometric_mean, judge, shortfalls
from benchmarks.grid.workloads import FILES, workload

PLACE = ("synthetic", 8, 0.7)


def figures(mean: float, p99: float = 1.0, imbalance: float = 1.0) -> Figures:
    return Figures(mean, p99, 0.5, imbalance)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small trace in Mooncake's form: 40 conversations of 3 turns that begin alike."""
    folder = tmp_path_factory.mktemp("traces")
    path = folder / FILES["synthetic"]
    path.parent.mkdir()
    lines = []
    for turn in range(3):
        for group in range(40):
            blocks = [0, *(1 + group * 10 + block for block in range(2 + turn))]
            row = {"timestamp": 1000 * (turn * 40 + group), "input_length": 512 * len(blocks), "output_length": 20}
            lines.append(json.dumps({**row, "hash_ids": blocks}))
    path.write_text("\n".join(lines) + "\n")
    return folder


def test_the_halves_share_no_conversation_and_make_up_the_whole(traces: Path):
    tuning, grid = (workload(traces, "synthetic", half, None) for half in ("tuning", "grid"))
    groups = [{session.turns[0].blocks[1] for session in half.sessions} for half in (tuning, grid)]
    assert not groups[0] & groups[1]
    assert len(groups[0] | groups[1]) == 40
    assert all(groups)
    assert tuning.requests + grid.requests == 120


def test_saturation_is_the_rate_at_which_the_limit_is_still_kept(traces: Path):
    setting = Setting(traces, "synthetic", "grid", 1, 1500)
    rate = saturation(setting)
    keeps, fails = (play(setting, "process_tokens", factor * rate, 1).first_token for factor in (1.0, 1.2))
    assert keeps is not None
    assert keeps.p99 < TOLERATED_SECONDS
    assert fails is not None
    assert fails.p99 > TOLERATED_SECONDS


def test_a_trace_that_is_too_short_to_saturate_a_fleet_is_refused(traces: Path):
    with pytest.raises(ValueError, match="too few requests to saturate 8 workers"):
        saturation(Setting(traces, "synthetic", "grid", 8, 100))


def test_a_short_half_is_repeated(traces: Path):
    half = workload(traces, "synthetic", "grid", None).requests
    trace = workload(traces, "synthetic", "grid", 3 * half)
    assert trace.requests == 3 * half
    assert len({session.turns[0].blocks[1] for session in trace.sessions}) == half


def test_a_hopeless_rival_is_not_run_again():
    by_policy = {
        "least_delay": figures(0.1, 0.1),
        BOUND: figures(0.1, 0.1),
        "fast": figures(1.0, 9.0),
        "steady": figures(9.0, 1.0),
        "near": figures(1.3, 9.0),
        "slow": figures(1.4, 1.4),
        "round_robin": figures(9.0, 9.0),
    }
    assert contenders(by_policy, ["least_delay"]) == ["fast", "steady", "near", "round_robin"]


def test_a_cell_is_measured_the_same_again(traces: Path):
    cell = Cell(Setting(traces, "synthetic", "tuning", 2, 30), 0.7, 5.0, 1, "least_delay")
    assert measure(cell) == measure(cell)


def test_the_best_rival_is_neither_ours_nor_the_oracle():
    by_policy = {
        "least_delay": figures(1.0, 2.0),
        "cache_aware": figures(0.5),
        BOUND: figures(0.1, 0.1),
        "lmetric": figures(2.0, 1.0),
        "request_num": figures(4.0, 9.0),
        "round_robin": figures(3.0, 9.0),
    }
    row = judge(PLACE, by_policy, "least_delay", ("least_delay", "cache_aware"))
    assert (row.best_mean, row.mean_ratio) == ("lmetric", 0.5)
    assert (row.best_p99, row.p99_ratio) == ("lmetric", 2.0)
    assert row.plain_ratio == pytest.approx(1 / 3)


def test_seeds_are_averaged_and_the_worst_imbalance_counts():
    assert average([figures(1.0, 2.0, 1.5), figures(3.0, 4.0, 1.1)]) == Figures(2.0, 3.0, 0.5, 1.5)


@pytest.mark.parametrize(
    ("load", "ours", "complaint"),
    [
        (0.7, figures(0.5, 0.5, 1.31), "max/mean"),
        (0.7, figures(1.2, 0.5), "mean is 1.20"),
        (0.7, figures(0.5, 1.3), "p99 is 1.30"),
        (0.3, figures(0.5, 0.5, 9.0), None),
        (0.9, figures(0.5, 0.5), None),
    ],
)
def test_what_falls_short_is_told(load: float, ours: Figures, complaint: str | None):
    by_policy = {"a": ours, "b": figures(1.0), "request_num": figures(1.0), "round_robin": figures(1.0)}
    found = shortfalls([judge(("t", 8, load), by_policy, "a", ("a",))])
    assert bool(found) == (complaint is not None)
    assert complaint is None or any(complaint in line for line in found)


def test_a_light_load_must_not_be_slower_than_a_plain_balancer():
    by_policy = {"a": figures(1.01, 0.9), "request_num": figures(1.0), "round_robin": figures(2.0)}
    found = shortfalls([judge(("t", 8, 0.3), by_policy, "a", ("a",))])
    assert any("plain balancer" in line for line in found)


def test_the_report_shows_every_cell_and_policy():
    by_policy = {"a": figures(0.5), BOUND: figures(0.4), "request_num": figures(1.0), "round_robin": figures(2.0)}
    row = judge(PLACE, by_policy, "a", ("a",))
    assert "| synthetic | 8 | 0.7 | 0.500 |" in cells_table([row], {PLACE: by_policy[BOUND]})
    assert "| round_robin | 4.00 | 4.00 |" in policies_table({PLACE: by_policy}, "a")
    assert "mean 0.500" in summary([row])


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
