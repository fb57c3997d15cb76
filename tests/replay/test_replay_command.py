"""`warmroute replay` as a user runs it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from warmroute.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    """Twenty conversations of three turns in Mooncake's form."""
    lines = []
    for number in range(60):
        talk, turn = number % 20, number // 20
        ids = [0, *(1000 * talk + at + 1 for at in range(turn + 1)), 500_000 + number]
        lines.append(
            {
                "timestamp": number * 400,
                "input_length": len(ids) * 512 - 100,
                "output_length": 20,
                "hash_ids": ids,
            }
        )
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_policies_are_compared_in_a_table_and_in_json(mooncake: Path, tmp_path: Path, capsys: Captured) -> None:
    figures = tmp_path / "figures.json"
    policies = [f"--policy={name}" for name in ("round_robin", "cache_aware", "lmetric", "oracle")]
    argv = ["replay", str(mooncake), *policies, "--rate", "x2", "--rate=x8", "--workers=3", "--json", str(figures)]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert "talks.jsonl, x2: 60 requests, 3 mixed engines" in shown
    runs = json.loads(figures.read_text())
    assert [(run["rate"], run["policy"]) for run in runs][::4] == [(2.0, "round_robin"), (8.0, "round_robin")]
    assert {run["policy"]: run["requests"] for run in runs} == dict.fromkeys(
        ("round_robin", "cache_aware", "lmetric", "oracle"), 60
    )
    assert runs[1]["hit_share"] > runs[0]["hit_share"]


def test_a_page_with_plots(mooncake: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert main(["replay", str(mooncake), "--policy=cache_aware", "--rate=x1", "--rate=x2", "--html", str(path)]) == 0
    assert path.read_text().count("<svg") == 8


def test_prefill_and_decode_engines(mooncake: Path, capsys: Captured) -> None:
    assert main(["replay", str(mooncake), "--prefill=2", "--decode=2", "--policy=cache_aware"]) == 0
    assert "2 prefill engines and 2 decode engines" in capsys.readouterr().out


def test_the_engine_model_can_be_set(mooncake: Path, tmp_path: Path) -> None:
    means = []
    for model in ("prefill_token=1e-5", "prefill_token=1e-3,step_tokens=512"):
        figures = tmp_path / "figures.json"
        argv = ["replay", str(mooncake), "--policy=cache_aware", f"--engine-model={model}", f"--json={figures}"]
        assert main(argv) == 0
        means.append(json.loads(figures.read_text())[0]["first_token_seconds"]["mean"])
    assert means[1] > 10 * means[0]


def test_options_of_the_scheduler_can_be_set(mooncake: Path, tmp_path: Path) -> None:
    shares = []
    for weight in ("0", "1"):
        figures = tmp_path / "figures.json"
        argv = [
            "replay",
            str(mooncake),
            "--policy=cache_aware",
            f"--set=hit_ratio_weight={weight}",
            f"--json={figures}",
        ]
        assert main([*argv, "--set", "cache-block-size=64"]) == 0
        shares.append(json.loads(figures.read_text())[0]["hit_share"])
    assert shares[0] < shares[1]


def test_a_trace_may_be_gzipped_and_cut(mooncake: Path, tmp_path: Path, capsys: Captured) -> None:
    packed = tmp_path / "talks.jsonl.gz"
    packed.write_bytes(gzip.compress(mooncake.read_bytes()))
    assert main(["replay", str(packed), "--policy=cache_aware", "--limit=7"]) == 0
    assert "7 requests" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--policy=cahe_aware"], "--policy: unknown policy 'cahe_aware' (nearest known: cache_aware)"),
        (["--prefill=2"], "prefill and decode engines come together: give both numbers or none"),
        (["--rate=x0"], "argument --rate: must be above 0, not 0"),
        (["--engine-model=prefil=1"], "argument --engine-model: 'prefil' is none of step, prefill_token"),
        (["--set", "hit-ratio=1"], "--set hit-ratio=1: no option of the scheduler (nearest known: hit-ratio-weight)"),
        (["--set", "load_balance_weight=-1"], "--set load-balance-weight: Input should be greater than or equal to 0"),
        (["--speeds=1,-1"], "argument --speeds: must be above 0, not -1"),
    ],
)
def test_what_cannot_be_used_is_one_line(mooncake: Path, flags: list[str], expected: str, capsys: Captured) -> None:
    assert main(["replay", str(mooncake), *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"warmroute replay: {expected}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no JSON", "the first line is no JSON object"),
        ("", "the file is empty"),
        ("{}", "no known form of trace: the first line has neither"),
        ('{"timestamp": 1, "hash_ids": [1]}', ":1: Object missing required field `input_length`"),
        ('{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}', ":1: 2 hash_ids do not make 9"),
        ('{"id": "a", "block_size": 16, "reqs": []}', "no requests in it"),
        ('{"id": "a", "block_size": 16, "reqs": [{"in": 16, "out": 1, "h": [[1, 2]]}]}', ":1: h covers more than"),
    ],
)
def test_a_damaged_trace_is_named_with_the_place(tmp_path: Path, text: str, expected: str, capsys: Captured) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text(text)
    assert main(["replay", str(path)]) == 2
    assert expected in capsys.readouterr().err
