"""Whether a worker can serve: the answer of /ready.

Plain: there is a routable worker. With `enable-infer-ready-check` one of them must also have answered a one-token
request since it joined or last recovered. Those requests run in the background, one per worker at a time, repeated
until one passes; /ready itself waits for nothing. One such worker is enough, not all of them, so that a new worker that
still warms up never takes the whole router out of service.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from warmroute.config.tree import Config
from warmroute.fleet import Fleet, Member
from warmroute.fleet.client import NO_TIMER, REQUEST_ERRORS
from warmroute.scheduling.worker import Worker

logger = logging.getLogger(__name__)

CHECK_TIMEOUT_SECONDS = 60.0  # as in FastDeploy's router
LOOK_SECONDS = 0.2


class Readiness:
    """Watches the fleet from `start` to `close`; without the check there is nothing to watch."""

    def __init__(self, fleet: Fleet, config: Config) -> None:
        self._fleet = fleet
        self._is_checked = config.manager.enable_infer_ready_check
        tick = config.manager.health_check_interval_secs
        self._retry_seconds = tick
        # An outage that probes have seen lasts a tick at least, so none is overlooked.
        self._look_seconds = min(LOOK_SECONDS, tick / 4)
        self._checks: dict[Worker, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    def is_ready(self) -> bool:
        """Whether a request sent now would find a worker that can serve it."""
        if not self._fleet.can_serve():
            return False
        if not self._is_checked:
            return True
        self.start()
        return any(member.routable and self._has_passed(member.worker) for member in self._fleet.members)

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

    def _has_passed(self, worker: Worker) -> bool:
        check = self._checks.get(worker)
        return check is not None and check.done()

    async def _watch_fleet(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(self._look_seconds)

    def _look(self) -> None:
        healthy = {member.worker: member for member in self._fleet.members if member.health.is_healthy}
        for worker in [worker for worker in self._checks if worker not in healthy]:
            self._checks.pop(worker).cancel()
        for worker, member in healthy.items():
            if worker not in self._checks and member.routable:
                self._checks[worker] = asyncio.create_task(self._check(member), name=f"infer-ready {worker.id}")

    async def _check(self, member: Member) -> None:
        """Return once the worker has answered; the task's end is the pass."""
        while (problem := await self._ask(member)) is not None:
            logger.warning("worker %s is healthy but cannot serve: %s", member.url, problem)
            await asyncio.sleep(self._retry_seconds)
        logger.info("worker %s has answered its one-token request", member.url)

    async def _ask(self, member: Member) -> str | None:
        """Send the one-token request; None or what is wrong."""
        url = f"{member.url}/v1/chat/completions"
        request = self._fleet.http.post(url, json=one_token_request(member), timeout=NO_TIMER, allow_redirects=False)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS), request as response:
                return None if response.status == 200 else f"HTTP {response.status}"
        except REQUEST_ERRORS as error:
            return f"{type(error).__name__}: {error}"


def one_token_request(member: Member) -> dict[str, Any]:
    """FastDeploy's check request, but with a model that the worker lists: other engines refuse an unknown one."""
    return {
        "model": min(member.model_ids, default="default"),
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
        "stream": False,
    }
