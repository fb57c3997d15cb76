"""What all tests share."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is no failure: time limits belong to pytest-timeout.
settings.register_profile("warmroute", deadline=None)
settings.load_profile("warmroute")


@pytest.fixture(autouse=True)
def _nothing_is_being_handled() -> Iterator[None]:
    """No exception is still being handled when a test is over: compiled code that waits in a handler leaves its own."""
    yield
    assert sys.exc_info() == (None, None, None)
