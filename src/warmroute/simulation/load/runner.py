"""Plays sessions against an endpoint, a fixed number at a time or at a given rate, and collects the records."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from warmroute.simulation.load.client import LoadClient
from warmroute.simulation.load.records import Record, Summary, summarise
from warmroute.simulation.load.workload import Overrides, Session


class LoadRun:
    """One run over `sessions`. `on_record` hears of every request that ended; `summary` may be asked at any time."""

    def __init__(
        self,
        client: LoadClient,
        sessions: Sequence[Session],
        overrides: Overrides,
        on_record: Callable[[Record], None] = lambda _: None,
    ) -> None:
        self.planned = sum(len(session) for session in sessions)
        self.records: list[Record] = []
        self._client = client
        self._sessions = sessions
        self._overrides = overrides
        self._on_record = on_record
        self._started = time.perf_counter()
        self._ended: float | None = None

    async def closed_loop(self, concurrency: int) -> None:
        """Play `concurrency` sessions at a time: when one ends, the next begins. No think time between turns."""
        self._started = time.perf_counter()
        queue = iter(self._sessions)

        async def play_on() -> None:
            for session in queue:
                await self._play(session)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(self._sessions))):
                group.create_task(play_on())
        self._ended = time.perf_counter()

    async def open_loop(self, requests_per_second: float, rng: random.Random) -> None:
        """Start sessions at random (Poisson) times that do not depend on the answers.

        The mean gap between two starts is that of so many requests a second; the turns of a session follow each other
        without think time.
        """
        self._started = time.perf_counter()
        starts_per_second = requests_per_second * len(self._sessions) / self.planned
        due = 0.0
        async with asyncio.TaskGroup() as group:
            for session in self._sessions:
                due += rng.expovariate(starts_per_second)
                await asyncio.sleep(max(0.0, self._started + due - time.perf_counter()))
                group.create_task(self._play(session))
        self._ended = time.perf_counter()

    async def timed(self, starts: Sequence[float], pause: Callable[[Session, int], float]) -> list[float]:
        """Start each session at its own time and let `pause` tell how long before each later turn; all in seconds.

        Returns by how much each session began late: much, if this process had too much to do.
        """
        self._started = time.perf_counter()
        late = []
        async with asyncio.TaskGroup() as group:
            for due, session in sorted(zip(starts, self._sessions, strict=True), key=lambda pair: pair[0]):
                await asyncio.sleep(max(0.0, self._started + due - time.perf_counter()))
                late.append(max(0.0, time.perf_counter() - self._started - due))
                group.create_task(self._play(session, pause))
        self._ended = time.perf_counter()
        return late

    async def _play(self, session: Session, pause: Callable[[Session, int], float] | None = None) -> None:
        """Send the turns in order. A failed turn ends the session."""
        answers: list[str] = []
        for turn in range(len(session)):
            if pause is not None and turn:
                await asyncio.sleep(pause(session, turn))
            body = self._overrides.apply(session.body(turn, answers))
            record = await self._client.send(body, keep_text=session.needs_answers)
            self.records.append(record)
            self._on_record(record)
            if record.error is not None:
                return
            answers.append(record.text)
            record.text = ""

    def summary(self) -> Summary:
        """What was measured so far."""
        ended = time.perf_counter() if self._ended is None else self._ended
        return summarise(self.records, ended - self._started, self.planned)
