"""Black-box tests: bytes into a real router, bytes out of it, over loopback sockets and on the loop of production.

A module's tests share one event loop (by their `pytestmark`), one router and one worker, because a router takes 200 ms
to stop. Each test finds the worker as if new and must leave no lease behind. What breaks a worker uses one of its own.
"""

import logging

import pytest
import pytest_asyncio
import uvloop
from tests.support.router import assert_nothing_held, router_over
from tests.support.scripted_worker import ScriptedWorker


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def no_traceback(caplog):
    """No input may show a stack: not in the router's log, not in the event loop's."""
    yield
    for when in ("setup", "call"):
        for record in caplog.get_records(when):
            assert record.exc_info is None, logging.Formatter().format(record)
            assert "Traceback" not in record.getMessage()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with ScriptedWorker() as worker, router_over(worker) as router:
        yield worker, router


@pytest_asyncio.fixture(loop_scope="module")
async def worker(shared):
    """The worker of `router`, answering as it does by default."""
    shared[0].forget()
    return shared[0]


@pytest_asyncio.fixture(loop_scope="module")
async def router(shared):
    """A router with one healthy worker."""
    yield shared[1]
    await assert_nothing_held(shared[1])


@pytest_asyncio.fixture(loop_scope="module")
async def lone_worker():
    """A worker that no router knows yet."""
    async with ScriptedWorker() as worker:
        yield worker


@pytest_asyncio.fixture(loop_scope="module")
async def pair():
    """Two workers that no router knows yet."""
    async with ScriptedWorker() as one, ScriptedWorker() as other:
        yield one, other
