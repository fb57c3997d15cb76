"""Black-box tests of pairs: bytes into a real router, scripted workers behind it, on the loop of production."""

import logging

import pytest
import uvloop


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def no_traceback(caplog):
    """Nothing may show a stack: not in the router's log, not in the event loop's."""
    yield
    for when in ("setup", "call"):
        for record in caplog.get_records(when):
            assert record.exc_info is None, logging.Formatter().format(record)
