"""Which deadlines are over, and how often they are looked at."""

import pytest

from warmroute.config.tree import ServerConfig
from warmroute.gateway.deadlines import LATE_SECONDS, LONGEST_PAUSE, SHORTEST_PAUSE, Deadlines, Sweep


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


class Everything:
    """A loop, what is upstream, and a client: notes when it was looked at."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looked: list[float] = []
        self.due = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, due, look):
        self.due, self._look = due, look
        return self

    def check(self, now, *_) -> None:
        self.looked.append(now)

    def ring(self, late: float = 0.0) -> None:
        self.now = self.due + late
        self._look()


def test_after_a_standstill_what_came_meanwhile_is_read_first():
    """A stopped process finds its timers due before it has read anything."""
    all_of_it = Everything()
    sweep = Sweep(deadlines(), all_of_it, all_of_it)
    sweep.clients.add(all_of_it)
    all_of_it.ring()
    assert all_of_it.looked == [101.0, 101.0]
    all_of_it.ring(late=300.0)
    assert len(all_of_it.looked) == 2
    assert all_of_it.due == all_of_it.now + LONGEST_PAUSE
    all_of_it.ring()
    assert len(all_of_it.looked) == 4


def test_a_process_that_is_always_late_looks_all_the_same():
    all_of_it = Everything()
    sweep = Sweep(deadlines(), all_of_it, all_of_it)
    for _ in range(6):
        all_of_it.ring(late=LATE_SECONDS + 0.1)
    assert len(all_of_it.looked) == 3
    assert not sweep.clients
