"""Running a coroutine without a task."""

import asyncio

import pytest

from warmroute.gateway.driver import Driver, suspended


class Story:
    """A coroutine that tells how far it has come."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def suspend(self) -> None:
        self.told.append("begun")
        try:
            await suspended
            self.told.append("resumed")
        except asyncio.CancelledError:
            self.told.append("cancelled")

    async def wait_for(self, future: asyncio.Future[int]) -> None:
        try:
            self.told.append(await future)
        except asyncio.CancelledError:
            self.told.append("cancelled")
        await self.suspend()


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_it_starts_and_goes_on_at_once():
    story = Story()
    driver = Driver(story.suspend(), asyncio.get_running_loop())
    driver.resume()
    assert story.told == ["begun"]
    driver.resume()
    assert story.told == ["begun", "resumed"]
    driver.resume()
    driver.cancel()
    await turn()
    assert story.told == ["begun", "resumed"]


async def test_a_cancellation_arrives_in_the_next_turn():
    story = Story()
    driver = Driver(story.suspend(), asyncio.get_running_loop())
    driver.resume()
    driver.cancel()
    driver.cancel()
    assert story.told == ["begun"]
    await turn()
    assert story.told == ["begun", "cancelled"]


async def test_what_was_resumed_meanwhile_is_not_cancelled():
    story = Story()
    driver = Driver(story.suspend(), asyncio.get_running_loop())
    driver.resume()
    driver.cancel()
    driver.resume()
    await turn()
    assert story.told == ["begun", "resumed"]


async def test_a_cancellation_on_its_way_meets_what_is_waited_for_by_then():
    """It was resumed, and waits for something else, before the loop came to cancel it."""
    told: list[str] = []

    async def story() -> None:
        await suspended
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            told.append("cancelled")

    driver = Driver(story(), asyncio.get_running_loop())
    driver.resume()
    driver.cancel()
    driver.resume()
    await turn()
    assert told == ["cancelled"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_it_waits_for_futures_and_tasks(cancelled):
    story = Story()
    task = asyncio.get_running_loop().create_task(asyncio.sleep(0.01, 5))
    driver = Driver(story.wait_for(task), asyncio.get_running_loop())
    driver.resume()
    driver.resume()
    assert story.told == []
    if cancelled:
        driver.cancel()
    await asyncio.wait([task])
    await turn()
    assert story.told == ["cancelled" if cancelled else 5, "begun"]
    driver.resume()
    assert story.told[-1] == "resumed"


async def test_a_future_that_is_done_is_not_waited_for():
    story = Story()
    future = asyncio.get_running_loop().create_future()
    future.set_result(7)
    driver = Driver(story.wait_for(future), asyncio.get_running_loop())
    driver.resume()
    assert story.told == [7, "begun"]
    driver.resume()
