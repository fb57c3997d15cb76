"""Which deadlines are over, and how often they are looked at."""

import pytest

from warmroute.config.tree import ServerConfig
from warmroute.gateway.deadlines import LONGEST_PAUSE, SHORTEST_PAUSE, Deadlines


def deadlines(**options) -> Deadlines:
    return Deadlines.of(ServerConfig(**options))


def test_by_default_they_are_looked_at_once_a_second():
    assert deadlines().pause == LONGEST_PAUSE


@pytest.mark.parametrize(
    ("option", "pause"),
    [
        ({"stream_idle_timeout": 2}, 0.25),
        ({"first_byte_timeout": 0.8}, 0.1),
        ({"request_timeout": 0.01}, SHORTEST_PAUSE),
        ({"client_read_timeout": 4}, 0.5),
        (dict.fromkeys(("client_read_timeout", "client_idle_timeout", "request_timeout", "stream_idle_timeout"), 0), 1),
    ],
)
def test_short_deadlines_are_looked_at_more_often(option, pause):
    assert deadlines(**option).pause == pytest.approx(pause)


@pytest.mark.parametrize(
    ("began", "last", "size", "now", "what"),
    [
        (0, 29, 0, 29.9, ""),
        (0, 0, 0, 30, "nothing came for 30 s"),
        (0, 29, 10, 30.1, "only 10 bytes came within 30 s"),
        (0, 29, 5_000, 34.9, ""),
        (0, 34, 5_000, 35, "only 5000 bytes came within 35 s"),
        (0, 100, 1_000_000, 101, ""),
        (0, 70, 1_000_000, 101, "nothing came for 30 s"),
    ],
)
def test_a_request_may_come_slowly_but_not_too_slowly(began, last, size, now, what):
    assert deadlines().reading_is_over(began, last, size, now) == what


def test_without_a_limit_a_request_may_take_for_ever():
    assert deadlines(client_read_timeout=0).reading_is_over(0, 0, 0, 1e9) == ""
