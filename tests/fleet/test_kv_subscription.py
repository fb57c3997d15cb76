"""Following a publisher over real sockets: gaps, restarts, late subscribers, and what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import zmq
import zmq.asyncio
from tests.support.kv_events import matches, prompt
from tests.support.kv_publisher import ScriptedPublisher, removed_map, stored_map
from tests.support.pools import make_worker
from tests.support.router import eventually, free_port

from warmroute.engines.kv_events.publishers import Publisher
from warmroute.fleet.kv_subscription import COOLDOWN_SECONDS, RESYNC_SECONDS, KvSubscription
from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.telemetry.kv_counts import KvCounts


@dataclass
class Follower:
    """A subscription with its index and a clock in hand."""

    index: ExactIndex
    counts: KvCounts
    subscription: KvSubscription
    task: asyncio.Task[None]
    now: list[float]

    def matched(self, blocks: str) -> int:
        return matches(self.index, prompt(blocks)).get("w", 0)

    @property
    def coverage(self) -> Coverage:
        ((_, coverage),) = self.index.sources()
        return coverage

    async def sees(self, blocks: str, depth: int) -> None:
        await eventually(lambda: self.matched(blocks) == depth, f"{depth} blocks of {blocks!r}", 5)


@asynccontextmanager
async def following(
    publisher: ScriptedPublisher, *, replay: str | None = None, listen: str = ""
) -> AsyncIterator[Follower]:
    index, counts, now = ExactIndex(1 << 30), KvCounts(), [100.0]
    context = zmq.asyncio.Context()
    where = Publisher(0, listen or publisher.address, bool(listen), publisher.replay if replay is None else replay)
    subscription = KvSubscription(where, index.source(make_worker()), index, counts, context, lambda: now[0])
    task = asyncio.create_task(subscription.follow())
    try:
        await publisher.subscribed()
        yield Follower(index, counts, subscription, task, now)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        context.destroy(linger=0)


async def test_events_from_the_first_on():
    async with ScriptedPublisher() as publisher, following(publisher) as follower:
        assert follower.coverage is Coverage.PARTIAL
        await publisher.publish(stored_map("abc"))
        await follower.sees("abcd", 3)
        assert follower.coverage is Coverage.COMPLETE
        await publisher.publish(removed_map("abc"), removed_map("ab"))
        await follower.sees("abcd", 1)
        assert follower.counts == KvCounts(batches=2, replays=1)


async def test_a_late_subscriber_has_all_told_that_is_still_there():
    async with ScriptedPublisher() as publisher:
        await publisher.publish(stored_map("ab"))
        await publisher.publish(stored_map("abcd", 2))
        async with following(publisher) as follower:
            await follower.sees("abcde", 4)
            assert follower.coverage is Coverage.COMPLETE
            await publisher.publish(removed_map("abcd"))
            await follower.sees("abcde", 3)


@pytest.mark.parametrize("replays", [True, False])
async def test_what_a_late_subscriber_cannot_know_is_not_taken_for_known(replays: bool):
    """The buffer is short, or there is none: then the rest of the cache is unknown, and what is believed counts."""
    async with ScriptedPublisher(replays=replays) as publisher:
        await publisher.publish(stored_map("ab"))
        await publisher.publish(stored_map("x"))
        del publisher.buffer[0]
        async with following(publisher) as follower:
            await publisher.publish(stored_map("abc", 2), stored_map("yz"))
            await follower.sees("yzz", 2)
            assert follower.matched("abcd") == 0
            assert follower.matched("xx") == int(replays)
            assert follower.coverage is Coverage.PARTIAL
            assert follower.counts.losses == 0


async def test_a_gap_is_asked_for_again():
    async with ScriptedPublisher() as publisher, following(publisher) as follower:
        await publisher.publish(stored_map("abc"))
        await follower.sees("abcd", 3)
        publisher.loses = True
        await publisher.publish(removed_map("abc"))
        await publisher.publish(stored_map("abx", 2))
        publisher.loses = False
        await publisher.publish(stored_map("q"))
        await follower.sees("qq", 1)
        assert (follower.matched("abcd"), follower.matched("abxx")) == (2, 3)
        assert publisher.asked == [0, 1]
        assert follower.coverage is Coverage.COMPLETE
        assert (follower.counts.gaps, follower.counts.losses) == (1, 0)


async def test_a_second_gap_waits_for_the_first_ones_cooldown():
    """Whoever is in trouble is not asked for everything again and again; what is not asked for is lost."""
    async with ScriptedPublisher() as publisher, following(publisher) as follower:
        for block in "ab":
            await publisher.publish(stored_map(block))
            await follower.sees(block * 2, 1)
            publisher.loses = True
            await publisher.publish(removed_map(block))
            publisher.loses = False
        await publisher.publish(stored_map("c"))
        await follower.sees("cc", 1)
        assert publisher.asked == [0, 1]
        assert [follower.matched(block * 2) for block in "ab"] == [0, 0]
        assert follower.coverage is Coverage.PARTIAL
        assert follower.counts.losses == 1
        follower.now[0] += COOLDOWN_SECONDS
        publisher.loses = True
        await publisher.publish(removed_map("c"))
        publisher.loses = False
        await publisher.publish(stored_map("d"))
        await follower.sees("dd", 1)
        assert follower.matched("cc") == 0
        assert len(publisher.asked) == 3


@pytest.mark.parametrize("replays", [True, False])
async def test_what_cannot_be_had_any_more_is_no_longer_believed(replays: bool):
    async with ScriptedPublisher(replays=replays) as publisher, following(publisher) as follower:
        await publisher.publish(stored_map("abc"))
        await follower.sees("abcd", 3)
        publisher.loses = True
        await publisher.publish(removed_map("abc"))
        publisher.buffer.clear()
        publisher.loses = False
        await publisher.publish(stored_map("xy"))
        await follower.sees("xyz", 2)
        assert follower.matched("abcd") == 0
        assert follower.coverage is Coverage.PARTIAL
        assert follower.counts.losses == 1


@pytest.mark.parametrize("replays", [True, False])
async def test_a_restarted_engine_has_nothing_of_before(replays: bool):
    async with ScriptedPublisher(replays=replays) as publisher, following(publisher) as follower:
        for block in "abc":
            await publisher.publish(stored_map(block))
        await follower.sees("cc", 1)
        publisher.restart()
        await publisher.publish(stored_map("xy"))
        await follower.sees("xyz", 2)
        assert follower.matched("aa") == 0
        assert follower.coverage is Coverage.COMPLETE
        assert follower.counts.restarts == 1
        assert follower.subscription.restarted_at == 100.0


async def test_an_unknown_parent_has_all_told_again_but_not_all_the_time():
    async with ScriptedPublisher() as publisher, following(publisher) as follower:
        await publisher.publish(stored_map("ab"))
        await publisher.publish(stored_map("pqr", 2), stored_map("x"))
        await follower.sees("xx", 1)
        await eventually(lambda: publisher.asked == [0, 0], "all is asked for again", 5)
        await follower.sees("abc", 2)
        for _ in range(3):
            await publisher.publish(stored_map("pqr", 2))
        await publisher.publish(stored_map("z"))
        await follower.sees("zz", 1)
        assert publisher.asked == [0, 0]
        follower.now[0] += RESYNC_SECONDS
        await publisher.publish(stored_map("pqr", 2))
        await eventually(lambda: publisher.asked == [0, 0, 0], "after a while it is asked for once more", 5)
        assert follower.counts.resyncs == 2


async def test_what_cannot_be_read_is_counted_and_the_rest_is_taken():
    async with ScriptedPublisher(replays=False) as publisher, following(publisher) as follower:
        await publisher.publish(stored_map("xy"))
        await follower.sees("xyz", 2)
        await publisher.send(b"?")
        await publisher.send(b"short", b"payload")
        await publisher.send((1).to_bytes(8, "big"), b"\xc1")
        publisher.next = 2
        await publisher.publish({"type": "BlockStored"}, stored_map("ab"), {"type": "New"}, 7)
        await follower.sees("abc", 2)
        assert follower.counts.unreadable == 5
        assert follower.counts.gaps == 0
        # What stood in the whole batch is lost: it may have taken something back.
        assert follower.matched("xyz") == 0
        assert follower.coverage is Coverage.PARTIAL


async def test_a_publisher_that_connects_is_listened_for():
    port = free_port()
    async with ScriptedPublisher(f"tcp://127.0.0.1:{port}") as publisher:
        async with following(publisher, listen=f"tcp://127.0.0.1:{port}") as follower:
            await publisher.publish(stored_map("ab"))
            await follower.sees("abc", 2)


async def test_an_address_that_is_taken_ends_it():
    port = free_port()
    context = zmq.asyncio.Context()
    taken = context.socket(zmq.SUB)
    taken.bind(f"tcp://127.0.0.1:{port}")
    index = ExactIndex(1 << 30)
    where = Publisher(0, f"tcp://127.0.0.1:{port}", True)
    subscription = KvSubscription(where, index.source(make_worker()), index, KvCounts(), context, lambda: 0.0)
    try:
        with pytest.raises(zmq.ZMQError):
            await subscription.follow()
    finally:
        context.destroy(linger=0)


async def test_a_long_batch_does_not_hold_the_loop():
    async with ScriptedPublisher() as publisher, following(publisher) as follower:
        events = [stored_map(chr(0x4E00 + number)) for number in range(2000)]
        turns = 0
        done = False

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await publisher.publish(*events)
        before = turns
        await follower.sees(chr(0x4E00 + 1999) * 2, 1)
        assert turns > before + 5
        done = True
        await counting
