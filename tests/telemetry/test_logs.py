import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
from pydantic import ValidationError

from warmroute.config.tree import LogConfig
from warmroute.telemetry.log_flood import MOST_LINES, WINDOW_SECONDS, FloodGuard, left_out
from warmroute.telemetry.logs import configure_logging

NAMES = ("warmroute", "uvicorn.error")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NAMES]
    saved = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, saved, strict=True):
        for handler in logger.handlers:
            handler.close()
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def flush() -> None:
    for handler in logging.getLogger("warmroute").handlers:
        handler.flush()


def test_a_line_is_level_time_logger_message(capsys):
    configure_logging(LogConfig(format="text", output="stdout"))
    logging.getLogger("warmroute.fleet").info("worker %s is healthy", "a:1")
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
    assert re.fullmatch(rf"INFO {time} warmroute\.fleet: worker a:1 is healthy\n", capsys.readouterr().out)


def test_no_output_named_is_stderr(capsys):
    configure_logging(LogConfig(format="text"))
    logging.getLogger("warmroute").info("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("warmroute: hello\n")


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", "debug info warning error"),
        ("info", "info warning error"),
        ("warn", "warning error"),
        ("warning", "warning error"),
        ("error", "error"),
    ],
)
def test_the_level_is_the_lowest_that_is_written(level, written, capsys):
    configure_logging(LogConfig(format="text", level=level))
    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("warmroute.x"), name)(name)
    assert [line.rsplit(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == written.split()


def test_file_appends_to_logs_router_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for message in ("first", "second"):
        configure_logging(LogConfig(format="text", output="file"))
        logging.getLogger("warmroute").info(message)
    flush()
    lines = (tmp_path / "logs" / "router.log").read_text().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["first", "second"]


def test_a_rotated_file_is_opened_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configure_logging(LogConfig(format="text", output="file"))
    log = tmp_path / "logs" / "router.log"
    logging.getLogger("warmroute").info("before")
    flush()
    log.rename(log.with_suffix(".1"))
    logging.getLogger("warmroute").info("after")
    flush()
    assert log.read_text().endswith("after\n")
    assert "before" not in log.read_text()


def test_the_http_server_reports_to_the_same_place_and_the_root_logger_is_left_alone(capsys):
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    configure_logging(LogConfig(format="text"))
    logging.getLogger("uvicorn.error").warning("bad request")
    assert capsys.readouterr().err.endswith("uvicorn.error: bad request\n")
    assert (root.handlers, root.level) == before


def test_a_line_is_not_written_again_by_the_root_loggers_handlers(caplog):
    configure_logging(LogConfig(format="text"))
    for name in NAMES:
        logging.getLogger(name).error("once")
    assert caplog.messages == []


def test_configuring_twice_writes_each_line_once(capsys):
    configure_logging(LogConfig(format="text"))
    configure_logging(LogConfig(format="text"))
    logging.getLogger("warmroute").info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_a_handler_of_the_embedding_app_stays():
    own = logging.NullHandler()
    logging.getLogger("warmroute").addHandler(own)
    configure_logging(LogConfig(format="text"))
    assert own in logging.getLogger("warmroute").handlers


def test_a_message_cannot_forge_a_line_and_a_traceback_follows_its_line(capsys):
    configure_logging(LogConfig(format="text"))
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("warmroute").exception("host %s", "x\r\nERROR forged")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(r"warmroute: host x\r\nERROR forged")
    assert lines[1].startswith("Traceback")
    assert lines[-1] == "ValueError: broken"


def test_text_that_is_not_valid_unicode_is_written_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configure_logging(LogConfig(format="text", output="file"))
    logging.getLogger("warmroute").info("id %s", "\ud800")
    flush()
    assert (tmp_path / "logs" / "router.log").read_text().endswith("id \\ud800\n")


def test_a_line_is_text_on_a_terminal_and_json_elsewhere(capsys, monkeypatch):
    logger = logging.getLogger("warmroute.fleet")
    configure_logging(LogConfig())
    logger.warning("worker %s", "a:1")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "warmroute.fleet", "worker a:1")
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    configure_logging(LogConfig())
    logger.warning("worker %s", "a:1")
    assert capsys.readouterr().err.startswith("WARNING ")
    configure_logging(LogConfig(format="json"))
    logger.warning("worker %s", "a:1")
    assert capsys.readouterr().err.startswith('{"time"')


def test_a_json_line_is_one_line_whatever_is_in_it(capsys):
    configure_logging(LogConfig(format="json"))
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("warmroute").exception("host %s", 'x\r\n\u2028"\ud800')
    (line,) = capsys.readouterr().err.splitlines()
    fields = json.loads(line)
    assert fields["message"] == 'host x\r\n\u2028"\ud800'
    assert fields["traceback"].endswith("ValueError: broken")


def test_a_module_may_have_a_level_of_its_own(capsys):
    configure_logging(LogConfig(format="text", level="warning", levels=("gateway.pd=debug", "fleet=error")))
    for name in ("warmroute.gateway.pd.relay", "warmroute.gateway.relay", "warmroute.fleet.roster", "warmroute.app"):
        for level in ("debug", "warning"):
            getattr(logging.getLogger(name), level)(level)
    written = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert written == [
        "warmroute.gateway.pd.relay: debug",
        "warmroute.gateway.pd.relay: warning",
        "warmroute.gateway.relay: warning",
        "warmroute.app: warning",
    ]
    configure_logging(LogConfig(format="text", level="warning"))
    logging.getLogger("warmroute.gateway.pd.relay").debug("no longer")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("entry", ["gateway", "gateway=loud", "gatewy=debug", "=debug"])
def test_a_level_that_makes_no_sense_is_refused(entry):
    with pytest.raises(ValidationError, match=r"no module|no level|not of the form"):
        LogConfig(levels=(entry,))


def test_a_full_file_is_moved_and_only_so_many_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configure_logging(LogConfig(output="file", max_file_mb=1, kept_files=2))
    for number in range(35):
        logging.getLogger("warmroute").info("%d %s", number, "x" * 100_000)
    flush()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "logs").iterdir()}
    assert sorted(sizes) == ["router.log", "router.log.1", "router.log.2"]
    assert max(sizes.values()) <= 1024 * 1024
    assert '"message": "34 x' in (tmp_path / "logs" / "router.log").read_text()


def test_what_floods_the_log_is_cut_and_counted(capsys):
    configure_logging(LogConfig(format="text", level="info"))
    logger = logging.getLogger("warmroute.gateway")
    for number in range(MOST_LINES + 40):
        logger.warning("request %d failed", number)
        logger.info("access %d", number)
    lines = capsys.readouterr().err.splitlines()
    assert sum("failed" in line for line in lines) == MOST_LINES
    assert sum("access" in line for line in lines) == MOST_LINES + 40


def test_after_a_flood_it_is_told_how_much_was_left_out():
    guard = FloodGuard()

    def passes(created: float, line: int = 1) -> tuple[bool, int]:
        record = logging.LogRecord("warmroute", logging.WARNING, "file.py", line, "text", (), None)
        record.created = created
        return guard.filter(record), left_out(record)

    first = [passes(100.0) for _ in range(MOST_LINES + 5)]
    assert first == [(True, 0)] * MOST_LINES + [(False, 0)] * 5
    assert passes(100.0, line=2) == (True, 0)
    assert passes(100.0 + WINDOW_SECONDS) == (True, 5)
    assert passes(100.0 + WINDOW_SECONDS) == (True, 0)
    assert passes(100.0 + 3 * WINDOW_SECONDS) == (True, 0)
