"""The `warmroute` command: finding commands, exit codes, one line per error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from warmroute import __version__
from warmroute.cli import COMMANDS, main
from warmroute.config.options import all_options

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastdeploy" / "config.yaml"
Captured = pytest.CaptureFixture[str]


def run(*argv: str, module: str = "warmroute", directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own, without variables that would configure it."""
    command = [sys.executable, "-m", module, *argv]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=30, env={"PATH": ""}, cwd=directory, check=False
    )


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_the_overview_lists_every_command(argv: list[str], capsys: Captured) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for name in COMMANDS)


@pytest.mark.parametrize("argv", [["--version"], ["-V"], ["serve", "--version"], ["serve", "-V"], ["check", "-V"]])
def test_version(argv: list[str], capsys: Captured) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out == f"warmroute {__version__}\n"


def test_an_unknown_command_names_the_nearest(capsys: Captured) -> None:
    assert main(["sevre"]) == 2
    assert capsys.readouterr().err == "warmroute: unknown command sevre (nearest known: serve)\n"


def test_an_unknown_command_unlike_any_other_is_told_all(capsys: Captured) -> None:
    assert main(["nosuch"]) == 2
    assert capsys.readouterr().err == (
        "warmroute: unknown command nosuch (known: serve, status, top, check, engine, demo, bench, replay)\n"
    )


def test_help_of_serve_has_every_option_with_default_and_variable(capsys: Captured) -> None:
    assert main(["serve", "--help"]) == 0
    out = capsys.readouterr().out
    words = " ".join(out.split())
    for option in all_options():
        assert f"--{option.flag} " in out
        assert f"[env: {option.variable}]" in words
    assert "[default: 0.0.0.0]" in words
    assert "How a worker is chosen." in out


def test_check_prints_what_loads_again(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    assert main(["check", "--config_path", str(EXAMPLE), "--port", "9000"]) == 0
    printed = capsys.readouterr().out
    assert "  port: 9000  # --port\n" in printed
    again = tmp_path / "again.yaml"
    again.write_text(printed)
    assert main(["check", "--config_path", str(again)]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(printed)


def test_check_tells_every_error_and_prints_no_configuration(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"WARMROUTE_POLCY": "x"})
    assert main(["check", "--prt", "1", "--policy=randm"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error: unknown flag --prt (nearest known: --port)",
        "error: unknown environment variable WARMROUTE_POLCY (nearest known: WARMROUTE_POLICY)",
        "error: --policy names an unknown policy randm (nearest known: random)",
    ]


def test_serve_tells_the_first_error_and_how_many_more(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    assert main(["serve", "--prt", "1", "--policy=randm"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "warmroute serve: unknown flag --prt (nearest known: --port)"
        " (2 more: `warmroute check` with the same flags tells all)\n"
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "warmroute serve: --port or server.port is required"),
        (["--port"], "warmroute serve: argument --port: expected one argument"),
        (["--port", "http"], "warmroute serve: --port must be a valid integer, not 'http'"),
        (
            ["--port=1", "--worker=a:1", "--decode=b:2"],
            "warmroute serve: --worker cannot stand beside --decode: "
            "with prefill and decode workers there are no mixed ones",
        ),
        (["--port=1", "--afd"], "warmroute serve: --afd is not supported"),
    ],
)
def test_serve_ends_with_one_line_and_exit_code_2(argv: list[str], message: str) -> None:
    done = run("serve", *argv)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message}\n")


def test_the_launcher_takes_the_same_flags(tmp_path: Path) -> None:
    done = run("-V", module="warmroute.launch")
    assert (done.returncode, done.stdout) == (0, f"warmroute {__version__}\n")
    done = run(
        "--config_path", str(EXAMPLE), "--port", "http", "--splitwise", module="warmroute.launch", directory=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "warmroute serve: --port must be a valid integer, not 'http'\n"
    assert not (tmp_path / "logs").exists()


def test_a_log_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    done = run("serve", "--port=1", "--log-output=file", directory=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("warmroute serve: the log file cannot be opened (")
    assert done.stderr.count("\n") == 1


def test_serve_logs_what_the_policy_does_not_use_and_ends_well_on_sigterm(tmp_path: Path) -> None:
    config = tmp_path / "router.yaml"
    config.write_text("server: {host: 127.0.0.1, port: 0}\nscheduler: {policy: random, waiting-weight: 10}\n")
    command = [sys.executable, "-m", "warmroute", "serve", "--config_path", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={"PATH": ""}) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "listens on" in line:
                    process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
    notes = [line for line in lines if "not used by policy random: scheduler.waiting-weight" in line]
    assert len(notes) == 1
    assert json.loads(notes[0])["level"] == "info"
