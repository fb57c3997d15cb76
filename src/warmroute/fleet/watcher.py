"""Two loops for one member: probes that decide on its health, and polls of its metrics.

They are two so that a metrics port that hangs delays no probe. Each loop does one thing at a time, so that ticks of
one worker never overlap, and an unexpected exception ends neither: it is logged once and the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from warmroute.fleet.acquaintance import get_to_know
from warmroute.fleet.background import Background
from warmroute.fleet.client import EngineClient
from warmroute.fleet.member import Member
from warmroute.fleet.roster import Roster
from warmroute.fleet.states import State
from warmroute.fleet.times import FleetTimes
from warmroute.scheduling.worker import Worker
from warmroute.telemetry.guard import Guard

FROZEN_TIMEOUTS = 2
"""So many probes in a row without an answer in time, and the worker counts as frozen."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two ticks, and between two polls of metrics."""

    tick: float
    poll: float


class Watcher:
    """Watches one member from `start` to `cancel`. `hint` asks for a probe at once.

    `on_frozen` hears of each FROZEN_TIMEOUTS probes in a row that are not answered in time.
    """

    def __init__(
        self,
        member: Member,
        roster: Roster,
        client: EngineClient,
        intervals: Intervals,
        times: FleetTimes,
        on_frozen: Callable[[Worker], None],
    ) -> None:
        self._member = member
        self._roster = roster
        self._client = client
        self._intervals = intervals
        self._times = times
        self._on_frozen = on_frozen
        self._hinted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._probe_guard = Guard(logger, f"the probe of worker {member.url}")
        self._poll_guard = Guard(logger, f"the poll of worker {member.url}")
        # Workers that came together are not probed together: a thousand at once would stall the loop.
        self._phase = zlib.crc32(member.id.encode()) / 2**32

    def start(self, background: Background) -> None:
        """Begin both loops. A member that was never healthy is probed at once."""
        self._tasks = [
            background.run(self._probe_forever(), f"probe {self._member.id}"),
            background.run(self._poll_forever(), f"poll {self._member.id}"),
        ]

    def cancel(self) -> None:
        """End both loops."""
        for task in self._tasks:
            task.cancel()

    def hint(self) -> None:
        """Probe as soon as possible. Hints that come together cause one probe."""
        self._hinted.set()

    async def _probe_forever(self) -> None:
        clock = asyncio.get_running_loop().time
        tick = self._intervals.tick
        delay = 0.0 if self._is_starting() else tick * self._phase
        next_hint = 0.0
        while True:
            if await self._sleep_until_hint(delay):
                await asyncio.sleep(max(0.0, next_hint - clock()))
                next_hint = clock() + self._times.hint_spacing
            self._hinted.clear()
            started, was_starting = clock(), self._is_starting()
            with self._probe_guard:
                await self._probe()
            if self._is_starting():
                interval = self._times.retry
            elif was_starting:
                interval = tick * self._phase
            elif 0 < self._member.health.timeouts < FROZEN_TIMEOUTS:
                interval = 0.0  # Whether it is frozen decides on the requests that wait there.
            else:
                interval = tick
            delay = interval - (clock() - started)

    def _is_starting(self) -> bool:
        return self._member.health.state is State.STARTING

    async def _probe(self) -> None:
        member = self._member
        refusals = member.health.refusals
        probe = await self._client.probe(member.url)
        if probe.is_void:
            probe = await self._client.probe(member.url)
        if probe.passed and member.health.recovers_on_pass:
            known = await get_to_know(self._client, member.info, self._times.acquaintance)
            self._roster.learn_models(member, known.models)
            if known.vitals is not None:
                self._roster.learn_vitals(member, known.vitals)
            self._roster.recognise(member, known.vitals, known.models)
        if probe.passed and member.health.refusals != refusals:
            return  # A request was refused after this probe began, so its pass proves nothing; a hint is waiting.
        self._roster.record_probe(member, probe.passed, probe.reason, timed_out=probe.timed_out)
        if member.health.timeouts >= FROZEN_TIMEOUTS:  # each time: some were chosen before, and sent only now
            self._on_frozen(member.worker)

    async def _poll_forever(self) -> None:
        delay = self._intervals.poll * self._phase
        while True:
            await asyncio.sleep(delay)
            if self._member.health.is_healthy:
                with self._poll_guard:
                    await self._poll()
            delay = self._intervals.poll

    async def _poll(self) -> None:
        member = self._member
        before = member.vitals
        vitals = await self._client.vitals(member.info)
        if member.vitals is not before:
            return  # The probe has learned a newer page meanwhile; beside it, an older one would look like a restart.
        restarted = vitals is not None and self._roster.learn_vitals(member, vitals)
        self._roster.recognise(member, vitals, None)
        if restarted or member.models is None or not member.is_understood:
            models = await self._client.models(member.info)
            self._roster.learn_models(member, models)
            self._roster.recognise(member, vitals, models)

    async def _sleep_until_hint(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._hinted.wait()
        except TimeoutError:
            return False
        return True
