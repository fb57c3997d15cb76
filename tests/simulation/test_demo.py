"""The demo: it compares, and it leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMALL = ["--sessions", "6", "--turns", "2", "--concurrency", "6"]


def start_demo(*flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "warmroute", "demo", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members_of(group: int) -> list[int]:
    """Ids of the processes of a process group, from /proc."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                status = (directory / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(status.rpartition(")")[2].split()[2]) == group:
                found.append(int(directory.name))
    return found


def test_it_compares_two_policies(tmp_path, monkeypatch):
    monkeypatch.setenv("WARMROUTE_POLICY", "random")  # the user's own configuration is none of the demo's business
    figures = tmp_path / "figures.json"
    process = start_demo(*SMALL, "--json", str(figures))
    output, errors = process.communicate(timeout=55)
    assert process.returncode == 0, errors
    assert "\x1b" not in output + errors
    for row in ("requests", "cached share", "TTFT p50 / p90 / p99", "end to end p50 / p99", "requests per worker"):
        assert row in output
    rounds = json.loads(figures.read_text())
    assert list(rounds) == ["round_robin", "least_delay"]
    for measured in rounds.values():
        assert (measured["requests"], measured["failed"]) == (12, 0)
        assert sum(measured["requests_per_worker"].values()) == 12
    assert rounds["least_delay"]["cached_share"] > rounds["round_robin"]["cached_share"]


def test_it_compares_them_on_prefill_and_decode_engines(tmp_path):
    """Every KV cache comes to its own prompt, and the workers are those that computed the prompts."""
    figures = tmp_path / "figures.json"
    process = start_demo("--pd", *SMALL, "--json", str(figures))
    output, errors = process.communicate(timeout=55)
    assert process.returncode == 0, errors
    assert "2 simulated prefill engines" in output
    assert "KV transfers confirmed" in output
    rounds = json.loads(figures.read_text())
    assert list(rounds) == ["round_robin", "least_delay"]
    for measured in rounds.values():
        assert (measured["requests"], measured["failed"]) == (12, 0)
        assert (measured["kv_confirmed"], measured["kv_wrong"]) == (12, 0)
        assert sum(measured["requests_per_worker"].values()) == 12
    # With two engines and six talks, chance alone may find what is cached.
    assert rounds["least_delay"]["cached_share"] >= rounds["round_robin"]["cached_share"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found through /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_everything_that_was_started(number, code):
    """Also the engines and the router, which are processes of their own."""
    process = start_demo("--sessions", "500")
    deadline = time.monotonic() + 30
    while len(members_of(process.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(members_of(process.pid)) == 3
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert members_of(process.pid) == []
