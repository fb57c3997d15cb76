"""`warmroute engine` and `warmroute bench` as a user runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmroute.cli import main

WARMROUTE = [sys.executable, "-m", "warmroute"]


def start_engine(*flags: str) -> tuple[subprocess.Popen[str], str]:
    """An engine process on a free port, and its URL."""
    process = subprocess.Popen(
        [*WARMROUTE, "engine", "--port", "0", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """An engine that is quick."""
    process, url = start_engine("--speed", "100", "--dialect", "vllm")
    with process:
        yield url
        process.terminate()


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    def talk(name: str) -> dict[str, object]:
        question, answer = {"role": "user", "content": name * 50}, {"role": "assistant", "content": "x" * 40}
        return {"traj": [question, answer, question, answer]}

    path = tmp_path / "talks.json"
    path.write_text(json.dumps([talk("a"), talk("b"), talk("c")]))
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_engine_in_order(number):
    process, _ = start_engine()
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_a_taken_port_is_one_line_and_exit_code_2(engine, capsys):
    assert main(["engine", "--port", engine.rsplit(":", 1)[1]]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "Address already in use" in output.err


def test_an_engine_needs_a_port(capsys):
    assert main(["engine"]) == 2
    assert "--port or --ports is required" in capsys.readouterr().err


def test_help_says_that_it_is_a_simulation(capsys):
    assert main(["engine", "--help"]) == 0
    assert "THIS IS A SIMULATION" in capsys.readouterr().out


def test_bench_plays_conversations(engine, conversations, tmp_path, capsys):
    figures = tmp_path / "figures.json"
    assert main(["bench", engine, "--input", str(conversations), "--json", str(figures)]) == 0
    output = capsys.readouterr()
    assert "cached share of prompt" in output.out
    assert "requests: 6 of 6 requests" in output.err
    assert "\x1b" not in output.out + output.err
    written = json.loads(figures.read_text())
    assert (written["endpoint"], written["requests"], written["output_tokens"]) == (engine, 6, 60)


def test_bench_plays_bodies_at_a_rate(engine, tmp_path, capsys):
    path = tmp_path / "bodies.jsonl"
    path.write_text('{"prompt":"one","max_tokens":2}\n{"prompt":"two","max_tokens":2,"model":"unknown"}\n')
    assert main(["bench", "--base-url", engine, "--input", str(path), "--rate", "1000"]) == 1
    assert "HTTP 404" in capsys.readouterr().out
    assert main(["bench", engine, "--input", str(path), "--model", "simulated"]) == 0
    assert main(["bench", engine, "--input", str(path), "--limit", "1", "--stream"]) == 0


def test_bench_makes_its_own_load(engine, capsys):
    assert main(["bench", engine, "--synthetic", "sessions=2,turns=2,system_tokens=50", "--no-stream"]) == 0
    assert "requests: 4 of 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["http://127.0.0.1:9"], "one of the arguments --input --synthetic is required"),
        (["--synthetic", "turns=1"], "give the endpoint as URL or as --base-url"),
        (["http://127.0.0.1:9", "--synthetic", "turn=1"], "'turn' is none of sessions, turns"),
        (["http://127.0.0.1:9", "--synthetic", "turns=1"], "127.0.0.1:9/v1/models: cannot connect: Connection refused"),
        (["127.0.0.1:9", "--synthetic", "turns=1"], "URL: must be like http://127.0.0.1:30000, not '127.0.0.1:9'"),
        (["--base-url", "localhost", "--synthetic", "turns=1"], "--base-url: must be like http://127.0.0.1:30000"),
        (["http://127.0.0.1:9", "--input", "/nowhere"], "/nowhere: No such file"),
        (["http://127.0.0.1:9", "--synthetic", "turns=1", "--rate=2", "--concurrency=8"], "not allowed with argument"),
    ],
)
def test_bench_tells_what_is_wrong_in_one_line(arguments, told, capsys):
    assert main(["bench", *arguments]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


def test_the_demo_tells_before_it_starts_that_its_figures_cannot_be_written(capsys):
    assert main(["demo", "--json", "/nowhere/figures.json"]) == 2
    assert capsys.readouterr().err == "warmroute demo: argument --json: there is no directory /nowhere\n"


def test_ctrl_c_shows_the_figures_so_far(engine, tmp_path):
    """Two thousand seconds of load, stopped after the first quarter of its requests."""
    load = tmp_path / "load.jsonl"
    load.write_text('{"prompt":"x","max_tokens":10}\n' * 3 + '{"prompt":"x","max_tokens":60000}\n')
    process = subprocess.Popen(
        [*WARMROUTE, "bench", engine, "--input", str(load), "--concurrency", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for _ in range(3):
        process.stderr.readline()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "not sent" in output
    assert "Traceback" not in errors
