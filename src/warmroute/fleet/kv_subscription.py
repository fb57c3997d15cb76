"""Following one publisher of KV events, from a replay of all that it still has to whatever comes next.

A gap is asked for again; what cannot be had any more makes the source begin anew, for a lost removal would be believed
for ever. A source is complete when it has seen every message from number 0 on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from warmroute.engines.kv_events.batch import Message, read_batch, read_message, sequence_bytes
from warmroute.engines.kv_events.publishers import Publisher
from warmroute.engines.kv_events.sequence import Sequence, Step
from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.scheduling.kv_source import KvSource
from warmroute.telemetry.kv_counts import KvCounts

if TYPE_CHECKING:
    import zmq
    import zmq.asyncio

logger = logging.getLogger(__name__)

REPLAY_SECONDS = 5.0
"""How long a replay may take from one message to the next."""
COOLDOWN_SECONDS = 5.0
"""Between two gaps of a publisher that are asked for again."""
RESYNC_SECONDS = 60.0
"""Between two times that all is told again because something does not fit."""
_QUEUED_MESSAGES = 100_000
_STEP_EVENTS = 256
"""So many events are taken in before requests have their turn again: at most about 2 ms."""


class KvSubscription:
    """One publisher's events into one source, from `follow` until it is cancelled."""

    def __init__(
        self,
        publisher: Publisher,
        source: KvSource,
        index: ExactIndex,
        counts: KvCounts,
        context: zmq.asyncio.Context,
        clock: Callable[[], float],
    ) -> None:
        self._publisher = publisher
        self._source = source
        self._index = index
        self._counts = counts
        self._context = context
        self._clock = clock
        self._sequence = Sequence()
        self._may_replay_at = self._may_resync_at = -RESYNC_SECONDS
        self._wants_resync = False
        self.restarted_at = -RESYNC_SECONDS
        """When the numbers last showed that the publisher is another process."""

    async def follow(self) -> None:
        """Take in what is published, for ever. zmq.ZMQError when the address cannot be used."""
        import zmq

        socket = self._context.socket(zmq.SUB)
        try:
            socket.setsockopt(zmq.RCVHWM, _QUEUED_MESSAGES)
            socket.setsockopt(zmq.IPV6, 1)
            socket.setsockopt(zmq.SUBSCRIBE, b"")
            if self._publisher.we_listen:
                socket.bind(self._publisher.address)
            else:
                socket.connect(self._publisher.address)
            await self._begin()
            while True:
                await self._receive(await socket.recv_multipart())
        finally:
            socket.close(linger=0)

    def resync(self) -> None:
        """Something does not fit: have all told again with the next message, unless that was done just now."""
        if self._clock() >= self._may_resync_at:
            self._may_resync_at = self._clock() + RESYNC_SECONDS
            self._counts.resyncs += 1
            self._wants_resync = True

    async def _begin(self) -> None:
        """Start from nothing, with all that the publisher still has."""
        self._wants_resync = False
        self._source.clear()
        self._source.is_incomplete = False
        self._sequence.begin()
        self._index.cover(self._source, Coverage.PARTIAL)
        if self._publisher.replay:
            await self._replay(0)

    async def _receive(self, frames: list[bytes]) -> None:
        try:
            message = read_message(frames)
        except ValueError:
            self._counts.unreadable += 1
            return
        step = self._sequence.live(message.sequence)
        if step is Step.RESTART:
            await self._restarted(message)
        elif step is Step.GAP:
            await self._gap(message)
        elif step is Step.NEXT:
            if message.sequence == 0:
                self._index.cover(self._source, Coverage.COMPLETE)
            await self._apply(message)
        if self._wants_resync:
            await self._begin()

    async def _restarted(self, message: Message) -> None:
        logger.info("KV events of worker %s begin anew: the engine was restarted", self._source.worker.url)
        self._counts.restarts += 1
        self.restarted_at = self._clock()
        await self._begin()
        await self._catch_up(message)

    async def _gap(self, message: Message) -> None:
        """Messages are missing. Ask for them; if they cannot be had, what was known is worth nothing."""
        if self._sequence.expected is not None:
            self._counts.gaps += 1
            if self._publisher.replay and self._clock() >= self._may_replay_at:
                self._may_replay_at = self._clock() + COOLDOWN_SECONDS
                await self._replay(self._sequence.expected)
        await self._catch_up(message)

    async def _catch_up(self, message: Message) -> None:
        """Take in a published message after whatever a replay has brought."""
        expected = self._sequence.expected
        if expected is not None and message.sequence < expected:
            return
        if message.sequence != expected:
            if expected is not None:
                self._lose()
            self._sequence.skip_to(message.sequence)
        self._sequence.replayed(message.sequence)
        if message.sequence == 0:
            self._index.cover(self._source, Coverage.COMPLETE)
        await self._apply(message)

    def _lose(self) -> None:
        self._counts.losses += 1
        self._source.clear()
        self._index.cover(self._source, Coverage.PARTIAL)

    async def _replay(self, first: int) -> None:
        """Ask for everything from this number on and take it in, as far as it comes."""
        import zmq

        self._counts.replays += 1
        socket = self._context.socket(zmq.DEALER)
        try:
            socket.setsockopt(zmq.IPV6, 1)
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.connect(self._publisher.replay)
            async with asyncio.timeout(REPLAY_SECONDS) as deadline:
                await socket.send_multipart([b"", sequence_bytes(first)])
                while not (message := read_message(await socket.recv_multipart())).ends_replay:
                    deadline.reschedule(asyncio.get_running_loop().time() + REPLAY_SECONDS)
                    await self._take_replayed(message)
        except (TimeoutError, ValueError, zmq.ZMQError) as error:
            reason = str(error) or f"no answer within {REPLAY_SECONDS:g} s"
            logger.warning("no replay of the KV events of worker %s: %s", self._source.worker.url, reason)
        finally:
            socket.close(linger=0)

    async def _take_replayed(self, message: Message) -> None:
        step = self._sequence.replayed(message.sequence)
        if step is Step.GAP:
            self._lose()
            self._sequence.skip_to(message.sequence)
            self._sequence.replayed(message.sequence)
        if step is not Step.KNOWN:
            if message.sequence == 0:
                self._index.cover(self._source, Coverage.COMPLETE)
            await self._apply(message)

    async def _apply(self, message: Message) -> None:
        try:
            batch = read_batch(message.payload)
        except ValueError:
            self._counts.unreadable += 1
            self._lose()
            return
        self._counts.batches += 1
        self._counts.unreadable += batch.unreadable
        events = batch.events
        for start in range(0, len(events), _STEP_EVENTS):
            self._source.apply(events[start : start + _STEP_EVENTS])
            if start + _STEP_EVENTS < len(events):
                await asyncio.sleep(0)
        if self._source.is_incomplete and self._index_says_complete():
            self.resync()

    def _index_says_complete(self) -> bool:
        return self._index.coverage(self._source.worker) is Coverage.COMPLETE
