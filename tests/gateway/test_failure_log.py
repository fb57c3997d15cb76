import gc

import pytest

from warmroute.gateway.failure_log import SEE_ITS_LOG, SEE_WORKERS, FailureLog
from warmroute.scheduling.worker import Worker


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def failures(clock):
    return FailureLog(clock)


def lines(caplog):
    assert {record.levelname for record in caplog.records} <= {"WARNING"}
    return [record.getMessage() for record in caplog.records]


def test_a_line_names_request_worker_and_reason(failures, caplog):
    failures.failed(b"r1", Worker("a:1", "http://a:1"), "connection refused")
    assert lines(caplog) == [f"request r1 failed: worker http://a:1: connection refused{SEE_ITS_LOG}"]


def test_one_line_a_second_for_each_worker_and_the_next_tells_how_many_were_left_out(failures, clock, caplog):
    down, other = Worker("a:1", "http://a:1"), Worker("b:1", "http://b:1")
    for number in range(4):
        failures.failed(b"r%d" % number, down, "x")
        clock.now += 0.25
    failures.failed(b"r4", down, "x")
    failures.failed(b"r5", other, "y")
    clock.now += 1
    failures.failed(b"r6", down, "x")
    assert lines(caplog) == [
        f"request r0 failed: worker http://a:1: x{SEE_ITS_LOG}",
        f"request r4 failed: worker http://a:1: x{SEE_ITS_LOG} (3 more since the last such line)",
        f"request r5 failed: worker http://b:1: y{SEE_ITS_LOG}",
        f"request r6 failed: worker http://a:1: x{SEE_ITS_LOG}",
    ]


def test_requests_that_no_worker_was_there_for_are_told_as_sparingly(failures, clock, caplog):
    for number in range(3):
        failures.unserved(b"r%d" % number, "no worker is available")
    clock.now += 1
    failures.unserved(b"r3", "no worker is available")
    assert lines(caplog) == [
        f"request r0 failed: no worker is available{SEE_WORKERS}",
        f"request r3 failed: no worker is available{SEE_WORKERS} (2 more since the last such line)",
    ]


def test_nothing_is_kept_of_workers_that_are_gone(failures):
    failures.failed(b"r", Worker("a:1", "http://a:1"), "x")
    gc.collect()
    assert len(failures._workers) == 0
