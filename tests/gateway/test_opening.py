"""A connection that was there in time is not lost because nobody could look."""

import asyncio
import time

import pytest
import uvloop
from tests.support.scripted_worker import ScriptedWorker

from warmroute.gateway.upstream.opening import MOMENT, MOST_EXTENSIONS, OpeningTime
from warmroute.gateway.upstream.pool import UpstreamPool
from warmroute.scheduling.worker import Worker


def pytest_asyncio_loop_factories():
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Alarms:
    """A loop whose alarms ring when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[float] = []
        self._ring = None

    def time(self) -> float:
        return self.now

    def call_at(self, due, ring):
        self.due.append(due)
        self._ring = ring
        return self

    def cancel(self) -> None:
        self._ring = None

    def ring(self, late: float = 0.0) -> None:
        self.now = self.due[-1] + late
        self._ring()


async def kept(alarms: Alarms, done: asyncio.Event) -> str:
    try:
        async with OpeningTime(2.0, alarms):
            await done.wait()
        return "opened"
    except TimeoutError:
        return "timed out"


async def start(alarms: Alarms):
    done = asyncio.Event()
    task = asyncio.create_task(kept(alarms, done))
    await asyncio.sleep(0)
    return task, done


async def test_an_alarm_in_time_gives_a_moment_more_and_no_second_one():
    task, _ = await start(alarms := Alarms())
    alarms.ring()
    assert alarms.due[-1] == pytest.approx(102.0 + MOMENT)
    alarms.ring()
    assert await task == "timed out"


async def test_time_in_which_nobody_could_look_is_given_once_more():
    task, done = await start(alarms := Alarms())
    alarms.ring(late=3.0)
    assert alarms.due[-1] == pytest.approx(108.0)
    alarms.ring(late=1.0)
    assert alarms.due[-1] == pytest.approx(110.0)
    done.set()
    assert await task == "opened"


async def test_a_loop_that_is_always_late_waits_no_longer_than_that_for_ever():
    task, _ = await start(alarms := Alarms())
    for _ in range(MOST_EXTENSIONS):
        alarms.ring(late=1.0)
    assert not task.cancelling()
    alarms.ring(late=1.0)
    assert await task == "timed out"


async def test_whoever_cancels_is_not_told_of_a_timeout():
    task, _ = await start(alarms := Alarms())
    alarms.ring()
    task.cancel()
    alarms.ring()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_connection_that_came_while_the_loop_stood_still_is_used():
    loop = asyncio.get_running_loop()
    async with ScriptedWorker() as scripted:
        pool = UpstreamPool(10, loop, connect_timeout=0.05)
        for number in range(5):
            connections = pool.of(Worker(f"w{number}", scripted.url))
            opening = loop.create_task(connections.connect())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            time.sleep(0.15)
            (await opening).abort()
        pool.close()
