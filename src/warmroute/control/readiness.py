"""Whether a request could be served: the answer of /ready.

Plain: there is a routable worker; with prefill and decode workers a pair that can work together, or a decode worker
that may serve alone. With `enable-infer-ready-check` one of them must also have answered a one-token request since it
joined or last recovered; of a pair both must have, not necessarily together. Those requests run in the background, one
per worker at a time, repeated until one passes; /ready itself waits for nothing. One such worker or pair is enough, not
all of them, so that a new worker that still warms up never takes the whole router out of service.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from random import Random

from warmroute.config.tree import Config
from warmroute.control.infer_check import CannotServe, InferCheck
from warmroute.fleet import Fleet, Member, UnknownWorker
from warmroute.scheduling.worker import Pool, Worker
from warmroute.telemetry.guard import Guard

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2


class Readiness:
    """Watches the fleet from `start` to `close`; without the check there is nothing to watch."""

    def __init__(self, fleet: Fleet, config: Config) -> None:
        self._fleet = fleet
        self._is_checked = config.manager.enable_infer_ready_check
        self._is_paired = config.server.splitwise
        tick = config.manager.health_check_interval_secs
        self._retry_seconds = tick
        # An outage that probes have seen lasts a tick at least, so none is overlooked.
        self._look_seconds = min(LOOK_SECONDS, tick / 4)
        self._infer = InferCheck(lambda: fleet.http, Random(), fleet.keys, fleet.tls)
        self._checks: dict[Worker, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    def is_ready(self) -> bool:
        """Whether a request sent now would find somebody who can serve it."""
        if not self._fleet.can_serve():
            return False
        if not self._is_checked:
            return True
        self.start()
        if not self._is_paired:
            return self._has_passed(self._fleet.pool("mixed", None))
        pairs = self._fleet.pairs(None)
        passed = (row.worker for row in pairs.prefill.candidates if self._worker_has_passed(row.worker))
        return any(self._has_passed(pairs.decode_for(worker)) for worker in passed) or self._has_passed(
            self._fleet.decode_alone(None)
        )

    def start(self) -> None:
        """Begin to check workers, if that is configured. Does nothing when it has begun."""
        if self._is_checked and self._watch is None:
            self._watch = asyncio.create_task(self._watch_fleet(), name="infer-ready checks")

    async def close(self) -> None:
        """End all checks."""
        tasks = [*self._checks.values(), *filter(None, [self._watch])]
        self._checks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has_passed(self, pool: Pool) -> bool:
        return any(self._worker_has_passed(row.worker) for row in pool.candidates)

    def _worker_has_passed(self, worker: Worker) -> bool:
        check = self._checks.get(worker)
        return check is not None and check.done() and not check.cancelled() and check.exception() is None

    async def _watch_fleet(self) -> None:
        guard = Guard(logger, "the watch over infer-ready checks")
        while True:
            with guard:
                self._look()
            await asyncio.sleep(self._look_seconds)

    def _look(self) -> None:
        healthy = {member.worker: member for member in self._fleet.members if member.health.is_healthy}
        for worker in [worker for worker in self._checks if worker not in healthy]:
            self._checks.pop(worker).cancel()
        for worker, member in healthy.items():
            if worker not in self._checks and member.routable and self._can_be_asked(worker):
                self._checks[worker] = asyncio.create_task(self._check(member), name=f"infer-ready {worker.id}")

    async def _check(self, member: Member) -> None:
        """Return once the worker has answered; the task's end is the pass."""
        guard = Guard(logger, f"the infer-ready check of worker {member.url}")
        for attempt in count():
            with guard:
                try:
                    await self._ask(member, attempt)
                except (CannotServe, UnknownWorker) as problem:
                    logger.warning(
                        "worker %s is healthy but cannot serve: %s; look into its log, it is asked again",
                        member.url,
                        problem,
                    )
                else:
                    logger.info("worker %s has answered its one-token request", member.url)
                    return
            await asyncio.sleep(self._retry_seconds)

    async def _ask(self, member: Member, attempt: int) -> None:
        """Send the one-token request; each attempt takes another partner, since it can be the partner that fails."""
        partners = self._partners(member.worker)
        if not partners:
            if not self._can_be_asked(member.worker):
                raise CannotServe("there is no worker left that it can be paired with")
            await self._infer.alone(member.url, member.model_ids)
            return
        partner = partners[attempt % len(partners)]
        pair = (member.worker, partner) if member.role == "prefill" else (partner, member.worker)
        dialect, prefill, decode = self._fleet.handshake(*pair)
        other = self._fleet.get(partner.id)
        both = member.model_ids & other.model_ids if other is not None and other.model_ids else member.model_ids
        await self._infer.pair(dialect, prefill, decode, both)

    def _can_be_asked(self, worker: Worker) -> bool:
        """Whether a request can be sent to it at all: a pair takes two."""
        alone = self._fleet.decode_alone(None).members
        return not self._is_paired or worker.candidate in alone or bool(self._partners(worker))

    def _partners(self, worker: Worker) -> list[Worker]:
        pairs = self._fleet.pairs(None)
        if worker.role == "prefill":
            return [row.worker for row in pairs.decode_for(worker).candidates]
        return [
            row.worker for row in pairs.prefill.candidates if worker.candidate in pairs.decode_for(row.worker).members
        ]
