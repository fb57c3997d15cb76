"""How long a response may take, by how far it has come."""

import pytest

from warmroute.gateway.errors import FirstByteTimedOut, WorkerSilent
from warmroute.gateway.held import HELD_SECONDS
from warmroute.gateway.upstream.patience import ANSWERING, SOME_BYTES, WAITING, Patience

PATIENCE = Patience(first_byte=10, silence=120)
ENDLESS = Patience(0, 0)


def over(patience, waited, seen, *, is_holding=False):
    return type(patience.over(waited, seen, is_holding=is_holding, worker_url="u"))


@pytest.mark.parametrize(
    ("patience", "waited", "seen", "error"),
    [
        (PATIENCE, 9.9, WAITING, None),
        (PATIENCE, 10, WAITING, FirstByteTimedOut),
        (PATIENCE, 10, SOME_BYTES, FirstByteTimedOut),
        (PATIENCE, 119, ANSWERING, None),
        (PATIENCE, 120, ANSWERING, WorkerSilent),
        (ENDLESS, 1e9, WAITING, None),
        (ENDLESS, 1e9, SOME_BYTES, None),
        (ENDLESS, 1e9, ANSWERING, None),
    ],
)
def test_limits(patience, waited, seen, error):
    assert over(patience, waited, seen) is (error or type(None))


@pytest.mark.parametrize("patience", [PATIENCE, ENDLESS])
def test_an_error_that_is_kept_back_has_little_time(patience):
    assert over(patience, HELD_SECONDS, ANSWERING, is_holding=True) is WorkerSilent
    assert over(patience, HELD_SECONDS / 2, ANSWERING, is_holding=True) is type(None)


def test_whether_a_byte_had_come_is_told():
    for seen, told in ((WAITING, False), (SOME_BYTES, True)):
        error = PATIENCE.over(10, seen, is_holding=False, worker_url="u")
        assert error is not None
        assert error.response_seen is told
        assert error.worker_url == "u"
