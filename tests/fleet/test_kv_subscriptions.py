"""Who is followed, from when on, and what ends it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.fleet.rosters import Surroundings, healthy, instance
from tests.support.kv_events import matches, prompt
from tests.support.kv_publisher import ScriptedPublisher, removed_map, stored_map
from tests.support.router import eventually

from warmroute.fleet import kv_subscriptions
from warmroute.fleet.kv_subscriptions import KvAddresses, KvSubscriptions
from warmroute.fleet.roster import Roster
from warmroute.scheduling.exact_index import Coverage, ExactIndex

URL = "http://127.0.0.1:8000"


class House:
    """A roster whose members tell what `pages` has for them."""

    def __init__(self, addresses: KvAddresses | None = None) -> None:
        self.now = 100.0
        self.index = ExactIndex(1 << 30)
        self.pages: dict[str, bytes | None] = {}
        self.roster: Roster = Surroundings().roster()
        self.subscriptions = KvSubscriptions(
            self.roster.members.values, self.ask, self.index, addresses or KvAddresses(), lambda: self.now
        )

    async def ask(self, url: str) -> bytes | None:
        return self.pages.get(url)

    def tells(self, *publishers: ScriptedPublisher, url: str = URL) -> None:
        self.pages[url] = json.dumps(
            {
                rank: {"endpoint": one.address.replace("tcp://127.0.0.1", "tcp://*"), "replay_endpoint": one.replay}
                for rank, one in enumerate(publishers)
            }
        ).encode()

    def matched(self, blocks: str) -> dict[str, int]:
        return matches(self.index, prompt(blocks))

    async def sees(self, blocks: str, expected: dict[str, int]) -> None:
        await eventually(lambda: self.matched(blocks) == expected, f"{expected} for {blocks!r}", 5)


@asynccontextmanager
async def running(house: House) -> AsyncIterator[House]:
    await house.subscriptions.start()
    try:
        yield house
    finally:
        await house.subscriptions.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_subscriptions, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(kv_subscriptions, "RETRY_SECONDS", 0.02)


WORKER = "127.0.0.1:8000"


async def test_a_healthy_worker_is_asked_and_followed():
    async with ScriptedPublisher() as publisher, running(House()) as house:
        house.tells(publisher)
        healthy(house.roster, URL)
        await publisher.subscribed()
        await publisher.publish(stored_map("abc"))
        await house.sees("abcd", {WORKER: 3})


async def test_each_rank_is_followed():
    async with ScriptedPublisher() as one, ScriptedPublisher() as two, running(House()) as house:
        house.tells(one, two)
        member = healthy(house.roster, URL)
        for publisher in (one, two):
            await publisher.subscribed()
            await publisher.publish(stored_map("abcd"))
        await house.sees("abcde", {WORKER: 4})
        assert house.index.coverage(member.worker) is Coverage.COMPLETE
        await two.publish(removed_map("abcd", "abc", "ab", "a"))
        await house.sees("abcde", {WORKER: 2})


async def test_a_worker_that_does_not_tell_yet_is_asked_again(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    async with ScriptedPublisher() as publisher, running(House()) as house:
        healthy(house.roster, URL)
        await eventually(lambda: len(caplog.records) == 1, "it is told of, once", 5)
        assert "not followed" in caplog.text
        house.tells(publisher)
        await publisher.subscribed()
        await publisher.publish(stored_map("ab"))
        await house.sees("abc", {WORKER: 2})
        assert len(caplog.records) == 1


async def test_configured_addresses_need_no_question():
    async with ScriptedPublisher() as one, ScriptedPublisher() as other:
        local = [publisher.address.replace("127.0.0.1", "*") for publisher in (one, other)]
        addresses = KvAddresses({"": local[0], "http://127.0.0.1:9": local[1]}, {"": one.replay}, 1)
        async with running(House(addresses)) as house:
            healthy(house.roster, URL)
            healthy(house.roster, "http://127.0.0.1:9")
            for publisher, blocks in ((one, "ab"), (other, "xy")):
                await publisher.subscribed()
                await publisher.publish(stored_map(blocks))
            await house.sees("abc", {WORKER: 2})
            await house.sees("xyz", {"127.0.0.1:9": 2})
            assert one.asked == [0]


async def test_a_removed_worker_leaves_nothing():
    async with ScriptedPublisher() as publisher, running(House()) as house:
        house.tells(publisher)
        member = healthy(house.roster, URL)
        await publisher.subscribed()
        await publisher.publish(stored_map("ab"))
        await house.sees("abc", {WORKER: 2})
        house.roster.remove(member, "test")
        await house.sees("abc", {})
        await eventually(lambda: list(house.index.sources()) == [], "nothing is left of it", 5)


async def test_an_unhealthy_worker_is_followed_on():
    async with ScriptedPublisher() as publisher, running(House()) as house:
        house.tells(publisher)
        member = healthy(house.roster, URL)
        await publisher.subscribed()
        house.roster.record_probe(member, False, "test")
        assert not member.health.is_healthy
        await publisher.publish(stored_map("ab"))
        await house.sees("abc", {WORKER: 2})


@pytest.mark.parametrize("shown", [False, True])
async def test_a_restart_that_other_signs_show(shown: bool):
    """The engine's metrics tell of it. If its events have done so, nothing that they told since is lost."""
    async with ScriptedPublisher(replays=False) as publisher, running(House()) as house:
        house.tells(publisher)
        member = healthy(house.roster, URL)
        await publisher.subscribed()
        await publisher.publish(stored_map("ab"))
        await publisher.publish(stored_map("xy"))
        await house.sees("abc", {WORKER: 2})
        await house.sees("xyz", {WORKER: 2})
        if shown:
            publisher.restart()
            await publisher.publish(stored_map("q"))
            await house.sees("qq", {WORKER: 1})
        house.subscriptions.forget(member.worker)
        if not shown:
            assert house.matched("abc") == {}
            await publisher.subscribed()
            publisher.restart()
            await publisher.publish(stored_map("q"))
        await house.sees("qq", {WORKER: 1})
        assert house.matched("abc") == {}
        assert house.index.coverage(member.worker) is Coverage.COMPLETE


async def test_a_publisher_that_is_found_out_is_read_anew_and_counts_no_copies_any_more():
    async with ScriptedPublisher() as publisher, running(House()) as house:
        house.tells(publisher)
        member = healthy(house.roster, URL)
        await publisher.subscribed()
        await publisher.publish(stored_map("ab"), stored_map("ab"))
        await house.sees("abc", {WORKER: 2})
        house.subscriptions.distrust(member.worker)
        await publisher.publish(removed_map("ab"))
        await eventually(lambda: publisher.asked == [0, 0], "all is asked for again", 5)
        await house.sees("abc", {WORKER: 1})
        assert house.subscriptions.counts.resyncs == 1


async def test_an_address_that_cannot_be_used_is_told_of_once(caplog: pytest.LogCaptureFixture):
    house = House(KvAddresses({"": "tcp://203.0.113.9:1"}))  # not an address of ours, so it cannot be listened at
    async with running(house):
        healthy(house.roster, URL)
        await eventually(lambda: "not followed" in caplog.text, "it is told of", 5)
    assert caplog.text.count("not followed") == 1


async def test_a_worker_that_is_not_healthy_yet_is_not_asked():
    asked: list[str] = []
    house = House()
    ask: Callable[[str], Awaitable[bytes | None]] = house.ask

    async def counted(url: str) -> bytes | None:
        asked.append(url)
        return await ask(url)

    house.subscriptions = KvSubscriptions(
        house.roster.members.values, counted, house.index, KvAddresses(), lambda: house.now
    )
    async with running(house):
        house.roster.add(instance(URL), "static")
        healthy(house.roster, "http://127.0.0.1:9")
        await eventually(lambda: len(asked) > 2, "the healthy one is asked", 5)
        assert set(asked) == {"http://127.0.0.1:9"}
