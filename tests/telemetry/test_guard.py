import asyncio
import logging

import pytest

from warmroute.telemetry.guard import Guard

LOGGER = logging.getLogger("test guard")


def test_an_error_is_logged_once_until_something_else_happens(caplog):
    guard = Guard(LOGGER, "the loop")
    rounds = 0
    for error in (ValueError("a"), ValueError("a"), KeyError("b"), None, KeyError("b")):
        with guard:
            rounds += 1
            if error:
                raise error
    assert rounds == 5
    assert caplog.messages == ["unexpected error in the loop"] * 3
    assert [type(record.exc_info[1]) for record in caplog.records] == [ValueError, KeyError, KeyError]


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
def test_what_ends_a_loop_ends_it(error, caplog):
    with pytest.raises(error):
        with Guard(LOGGER, "the loop"):
            raise error
    assert caplog.messages == []
