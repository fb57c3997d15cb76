import logging
import re
from collections.abc import Iterator

import pytest

from warmroute.config.tree import LogConfig
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


def test_a_line_is_level_time_logger_message(capsys):
    configure_logging(LogConfig(output="stdout"))
    logging.getLogger("warmroute.fleet").info("worker %s is healthy", "a:1")
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
    assert re.fullmatch(rf"INFO {time} warmroute\.fleet: worker a:1 is healthy\n", capsys.readouterr().out)


def test_no_output_named_is_stderr(capsys):
    configure_logging(LogConfig())
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
    configure_logging(LogConfig(level=level))
    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("warmroute.x"), name)(name)
    assert [line.rsplit(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == written.split()


def test_file_appends_to_logs_router_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for message in ("first", "second"):
        configure_logging(LogConfig(output="file"))
        logging.getLogger("warmroute").info(message)
    lines = (tmp_path / "logs" / "router.log").read_text().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["first", "second"]


def test_a_rotated_file_is_opened_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configure_logging(LogConfig(output="file"))
    log = tmp_path / "logs" / "router.log"
    logging.getLogger("warmroute").info("before")
    log.rename(log.with_suffix(".1"))
    logging.getLogger("warmroute").info("after")
    assert log.read_text().endswith("after\n")
    assert "before" not in log.read_text()


def test_the_http_server_reports_to_the_same_place_and_the_root_logger_is_left_alone(capsys):
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    configure_logging(LogConfig())
    logging.getLogger("uvicorn.error").warning("bad request")
    assert capsys.readouterr().err.endswith("uvicorn.error: bad request\n")
    assert (root.handlers, root.level) == before


def test_a_line_is_not_written_again_by_the_root_loggers_handlers(caplog):
    configure_logging(LogConfig())
    for name in NAMES:
        logging.getLogger(name).error("once")
    assert caplog.messages == []


def test_configuring_twice_writes_each_line_once(capsys):
    configure_logging(LogConfig())
    configure_logging(LogConfig())
    logging.getLogger("warmroute").info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_a_handler_of_the_embedding_app_stays():
    own = logging.NullHandler()
    logging.getLogger("warmroute").addHandler(own)
    configure_logging(LogConfig())
    assert own in logging.getLogger("warmroute").handlers


def test_a_message_cannot_forge_a_line_and_a_traceback_follows_its_line(capsys):
    configure_logging(LogConfig())
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
    configure_logging(LogConfig(output="file"))
    logging.getLogger("warmroute").info("id %s", "\ud800")
    assert (tmp_path / "logs" / "router.log").read_text().endswith("id \\ud800\n")
