"""What was taken back lately."""

from __future__ import annotations

from warmroute.scheduling.taken_back import MOST_KEYS, TakenBack


def test_the_oldest_is_forgotten_first():
    taken_back = TakenBack()
    for key in range(MOST_KEYS):
        taken_back.add(key)
    taken_back.add(0)  # again: it is the latest now
    taken_back.add(-1)
    assert 1 not in taken_back
    assert all(key in taken_back for key in (0, 2, MOST_KEYS - 1, -1))
