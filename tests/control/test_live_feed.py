"""The feed alone: shared frames, no frames without watchers, an end for all."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from warmroute.control.live_feed import LiveFeed


class Frames:
    def __init__(self) -> None:
        self.made = 0

    def next(self) -> bytes:
        self.made += 1
        return b"%d" % self.made


async def take(feed: LiveFeed, frames: Frames, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async with aclosing(feed.frames(frames.next)) as stream:
        async for frame in stream:
            taken.append(frame)
            if len(taken) == count:
                break
    return taken


async def test_all_watchers_get_the_same_frames():
    feed, frames = LiveFeed(0.001), Frames()
    one, other = await asyncio.gather(take(feed, frames, 3), take(feed, frames, 3))
    assert one == other == [b"1", b"2", b"3"]
    assert feed.watchers == 0


async def test_the_end_reaches_those_who_wait_and_those_who_come_later():
    feed, frames = LiveFeed(60), Frames()
    waiting = asyncio.create_task(take(feed, frames, 1))
    while not feed.watchers:
        await asyncio.sleep(0)
    feed.end()
    assert await waiting == []
    assert await take(feed, frames, 1) == []
    assert frames.made == 0


async def test_a_frame_that_cannot_be_made_is_logged_and_the_next_one_comes(caplog):
    feed, made = LiveFeed(0.001), []

    def sometimes() -> bytes:
        made.append(1)
        if len(made) < 3:
            raise RuntimeError("no frame")
        return b"frame"

    async with aclosing(feed.frames(sometimes)) as stream:
        assert await anext(stream) == b"frame"
    assert caplog.text.count("unexpected error in the live feed") == 1


async def test_one_watcher_that_is_cancelled_takes_nothing_from_the_others():
    feed, frames = LiveFeed(0.01), Frames()
    leaver = asyncio.create_task(take(feed, frames, 100))
    stayer = asyncio.create_task(take(feed, frames, 2))
    while feed.watchers < 2:
        await asyncio.sleep(0)
    leaver.cancel()
    assert len(await stayer) == 2
