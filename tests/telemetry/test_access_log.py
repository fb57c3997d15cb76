"""The access log is bounded, and keeps the order of its lines."""

import asyncio
import json

import pytest

from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError
from warmroute.telemetry.access_log import AccessLog, Line, open_access_log
from warmroute.telemetry.log_file import MAX_PENDING_BYTES
from warmroute.telemetry.metrics import Metrics


def line(number: int, text: str = "") -> Line:
    return Line(float(number), "id", "/v1/chat/completions" + text, 200, "served", 0.5)


async def test_lines_keep_their_order_and_have_no_empty_fields(tmp_path):
    log = AccessLog(open_access_log(str(tmp_path / "log")), Metrics())
    for number in range(500):
        log.add(line(number))
        if number % 100 == 0:
            await asyncio.sleep(0)
    await log.close()
    rows = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert [row["time"] for row in rows] == list(range(500))
    assert set(rows[0]) == {"time", "request_id", "path", "status", "outcome", "duration"}


async def test_what_waits_is_bounded(tmp_path):
    metrics = Metrics()
    log = AccessLog(open_access_log(str(tmp_path / "log")), metrics, delay=60)
    large = "x" * (MAX_PENDING_BYTES // 10)
    for number in range(15):
        log.add(line(number, large))
    assert metrics.lost_access_lines() == 6
    await log.close()
    assert (tmp_path / "log").read_bytes().count(b"\n") == 9


async def test_standard_output(capfdbinary):
    log = AccessLog(open_access_log("stdout"), Metrics())
    log.add(line(1))
    await log.close()
    assert json.loads(capfdbinary.readouterr().out)["time"] == 1.0


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--access-log-prefixes"], "--access-log-prefixes needs access-log"),
        (["--access-log", "/no/such/place/log"], "--access-log: there is no directory /no/such/place"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(flags, expected):
    with pytest.raises(ConfigError, match=expected):
        effective_config(["--port", "1", *flags], {})
