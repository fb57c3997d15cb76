"""Following the KV events of every worker: who is followed, and what ends it.

A worker is followed from its first passed probe until it is removed, through times of bad health. Where its publishers
are is configured, or asked of it again and again until it tells.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warmroute.engines.kv_events.publishers import Publisher, configured, read_sources
from warmroute.fleet.background import Background
from warmroute.fleet.kv_subscription import KvSubscription
from warmroute.fleet.member import Member
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.worker import Worker
from warmroute.telemetry.guard import Guard
from warmroute.telemetry.kv_counts import KvCounts

if TYPE_CHECKING:
    import zmq.asyncio

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at who is in the fleet."""
RETRY_SECONDS = 15.0
"""Between two attempts to find or follow the publishers of a worker."""
RESTART_NOTICE_SECONDS = 60.0
"""A restart that the events have shown already is told by other signs within this time."""

Endpoints = dict[str, str]
"""By worker URL, "" for all others."""


@dataclass(frozen=True, slots=True)
class KvAddresses:
    """What is configured of publishers; empty: they are asked for."""

    endpoints: Endpoints = field(default_factory=dict)
    replays: Endpoints = field(default_factory=dict)
    ranks: int = 1

    def of(self, url: str, host: str) -> list[Publisher] | None:
        """The publishers of a worker; None if they are not configured."""
        endpoint = self.endpoints.get(url) or self.endpoints.get("")
        if endpoint is None:
            return None
        # An endpoint of its own has a port of its own, and so has its replay.
        common = "" if url in self.endpoints else self.replays.get("", "")
        return configured(endpoint, self.replays.get(url, common), self.ranks, host)


class KvSubscriptions:
    """All subscriptions, from `start` to `stop`.

    `members` gives the fleet as it is, `ask` the answer of a worker (by URL) to `/kv_event_sources`, None for none.
    """

    def __init__(
        self,
        members: Callable[[], Collection[Member]],
        ask: Callable[[str], Awaitable[bytes | None]],
        index: ExactIndex,
        addresses: KvAddresses,
        clock: Callable[[], float],
    ) -> None:
        self.counts = KvCounts()
        self._members = members
        self._ask = ask
        self._index = index
        self._addresses = addresses
        self._clock = clock
        self._background = Background()
        self._followed: dict[Worker, asyncio.Task[None]] = {}
        self._subscriptions: dict[Worker, list[KvSubscription]] = {}
        self._context: zmq.asyncio.Context | None = None
        index.on_distrust = self.distrust

    async def start(self) -> None:
        """Begin to follow whoever is there, and comes."""
        import zmq.asyncio

        self._context = zmq.asyncio.Context()
        self._background.run(self._watch(), "KV events")

    async def stop(self) -> None:
        """End all subscriptions."""
        await self._background.stop()
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def forget(self, worker: Worker) -> None:
        """The worker was removed, or other signs than its events show that it was restarted: begin anew with it."""
        noticed = any(
            self._clock() - one.restarted_at < RESTART_NOTICE_SECONDS for one in self._subscriptions.get(worker, ())
        )
        if not (noticed and not worker.departed):
            self._end(worker)

    def distrust(self, worker: Worker) -> None:
        """Answers show that less is there than was told: read all anew, and count no copies from now on."""
        logger.warning("worker %s has less in its cache than its KV events tell: they are read anew", worker.url)
        for source, _ in self._index.sources():
            if source.worker is worker:
                source.counts_copies = False
        for subscription in self._subscriptions.get(worker, ()):
            subscription.resync()

    async def _watch(self) -> None:
        guard = Guard(logger, "the watch over KV events")
        while True:
            with guard:
                self._look()
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        present = {member.worker: member for member in self._members()}
        for worker in [worker for worker in self._followed if worker not in present]:
            self._end(worker)
        for worker, member in present.items():
            if worker not in self._followed and member.health.is_healthy:
                following = self._follow(member, worker)
                self._followed[worker] = self._background.run(following, f"KV events of {member.id}")

    def _end(self, worker: Worker) -> None:
        task = self._followed.pop(worker, None)
        if task is not None:
            task.cancel()
        self._subscriptions.pop(worker, None)
        self._index.drop(worker)

    async def _follow(self, member: Member, worker: Worker) -> None:
        """Find the publishers and follow them, again and again. What ended it is told once in a row."""
        told = ""
        while True:
            publishers = await self._publishers(member)
            trouble = "it names no publisher" if publishers is not None else "it does not tell where they are"
            if publishers:
                try:
                    await self._follow_all(publishers, worker)
                except* Exception as group:  # zmq's errors: an address that cannot be used
                    trouble = "; ".join(str(error) for error in group.exceptions)
            if trouble != told:
                told = trouble
                logger.warning("KV events of worker %s are not followed: %s", worker.url, trouble)
            await asyncio.sleep(RETRY_SECONDS)

    async def _publishers(self, member: Member) -> list[Publisher] | None:
        host = member.info.address.host
        publishers = self._addresses.of(member.url, host)
        if publishers is not None:
            return publishers
        page = await self._ask(member.url)
        return None if page is None else read_sources(page, host)

    async def _follow_all(self, publishers: list[Publisher], worker: Worker) -> None:
        assert self._context is not None  # noqa: S101 - tasks live between start and stop
        self._index.drop(worker)
        subscriptions = [
            KvSubscription(
                publisher,
                self._index.source(worker, publisher.rank),
                self._index,
                self.counts,
                self._context,
                self._clock,
            )
            for publisher in publishers
        ]
        self._subscriptions[worker] = subscriptions
        try:
            async with asyncio.TaskGroup() as group:
                for subscription in subscriptions:
                    group.create_task(subscription.follow())
        finally:
            if self._subscriptions.get(worker) is subscriptions:
                self._subscriptions.pop(worker)
                self._index.drop(worker)
