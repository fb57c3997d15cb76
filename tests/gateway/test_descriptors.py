"""How near the limit of open files is, by what is known to be open."""

import logging

from warmroute.gateway.descriptors import Descriptors


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def descriptors(limit: int, base: int = 20, members: int = 0, clock=None) -> Descriptors:
    return Descriptors(limit, base, lambda: members, clock or Clock())


def test_a_part_of_the_limit_is_kept_back():
    files = descriptors(1000)
    files.clients, files.upstream = 529, 400
    assert (files.used, files.is_short, files.is_exhausted) == (949, False, False)
    files.upstream += 1
    assert (files.is_short, files.is_exhausted) == (True, False)
    files.upstream += 25
    assert (files.is_short, files.is_exhausted) == (True, True)


def test_the_fleet_needs_files_for_its_probes():
    assert descriptors(1000, members=100).used == 220


def test_what_is_kept_back_is_neither_all_nor_without_bound():
    tiny = descriptors(64)
    tiny.clients = 64 - 20 - 16 - 1
    assert not tiny.is_short
    huge = descriptors(1_000_000)
    huge.clients = 1_000_000 - 20 - 512 - 1
    assert not huge.is_short


def test_without_a_limit_there_is_always_one_more():
    files = descriptors(0)
    files.clients = 10**6
    assert not files.is_short
    assert not files.is_exhausted


def test_the_log_says_so_now_and_then(caplog):
    clock = Clock()
    files = descriptors(100, clock=clock)
    files.clients = 99
    for now in (0.0, 1.0, 29.0, 31.0):
        clock.now = now
        assert files.is_short
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "119 of 100 open files are in use (99 clients, 0 connections to workers)" in caplog.messages[0]
    assert "ulimit -n" in caplog.messages[0]
