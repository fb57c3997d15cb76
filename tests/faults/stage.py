"""A router over two workers of each role, one side of which is told how to fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.support.pd import PREFILL_ANSWER, Side
from tests.support.router import assert_nothing_held, config, eventually, running
from tests.support.scripted_worker import Connection, Request, Script, ScriptedWorker, answering

from warmroute.app import Router
from warmroute.gateway.retry_budget import RetryBudget

MODES = ("mixed", "prefill", "decode")
"""Which workers fail; in the latter two cases the router serves by pairs."""


QUIET = {"health_check_interval_secs": 3600}
"""So that no probe takes what is meant for a request."""


class Stage:
    """`failing` is the side that fails, `partner` the other one of a pair."""

    def __init__(self, mode: str, router: Router, failing: Side, partner: Side | None) -> None:
        self.mode = mode
        self.expected = ""
        """What is to follow, in the words of the table."""
        self.router = router
        self.failing = failing
        self.partner = partner
        self.connections: list[Connection] = []
        """Those on which a worker has failed."""
        self._prefilled = asyncio.Event()

    async def begin(self, good: bytes) -> None:
        """Behave as if new; `good` is the answer that clients are to get. No connection is kept from before."""
        for side in filter(None, (self.failing, self.partner)):
            for worker in side.workers:
                for connection in tuple(worker.open_connections):
                    await connection.close()
        await eventually(lambda: self.router.gateway.upstream_connections == 0, "no connection is kept")
        self.router.gateway.retry_budget = RetryBudget(0.2)
        self.connections.clear()
        self._prefilled.clear()
        self.expected = ""
        self.before = self._counts()
        if self.mode == "prefill" and self.partner is not None:
            self.failing.forget(self._prefill)
            self.partner.forget(self._after_prefill(answering(good)))
        else:
            self.failing.forget(answering(good))
            if self.partner is not None:
                self.partner.forget(answering(PREFILL_ANSWER))
        for worker in self.failing.workers:
            worker.on_connect = None

    def expects(self, what: str) -> None:
        """Say what is to follow; where a failing prefill worker serves, decode may answer all the same."""
        self.expected = what
        if what == "served":
            self._prefilled.set()

    def fail(self, script: Script, times: int) -> None:
        """The next requests to the failing side are for `script`."""

        async def recorded(request: Request, connection: Connection) -> None:
            self.connections.append(connection)
            await script(request, connection)

        self.failing.first = [recorded] * times

    def fail_to_accept(self, on_connect: Any, times: int) -> None:
        """So many new connections to the failing side are for `on_connect`."""
        left = times

        async def recorded(connection: Connection) -> None:
            nonlocal left
            if left:
                left -= 1
                if await on_connect(connection) is False:
                    left += 1
                else:
                    self.connections.append(connection)

        for worker in self.failing.workers:
            worker.on_connect = recorded

    def counted(self) -> dict[str, Counter[str]]:
        """What has been counted since the beginning, by family."""
        return {name: counts - self.before[name] for name, counts in self._counts().items()}

    def is_open(self, connection: Connection) -> bool:
        """Whether the worker's end of it is open."""
        return any(connection in worker.open_connections for worker in self.failing.workers)

    def routable(self) -> int:
        """How many workers may get requests."""
        if self.mode == "mixed":
            return len(self.router.fleet.pool("mixed", None).candidates)
        return _routable(self.router)

    def _counts(self) -> dict[str, Counter[str]]:
        metrics = self.router.metrics
        statuses: Counter[str] = Counter()
        for (_, role, _, status, _), count in metrics.requests.items():
            statuses[str(status)] += count if role != "prefill" else 0
        return {
            "failed_attempts": Counter(metrics.failed_attempts),
            "broken_streams": Counter(metrics.broken_streams),
            "deadlines": Counter(metrics.deadlines),
            "statuses": statuses,
        }

    async def _prefill(self, request: Request, connection: Connection) -> None:
        self._prefilled.set()
        await connection.send(PREFILL_ANSWER)

    def _after_prefill(self, script: Script) -> Script:
        """A decode worker answers when it has got the KV cache; until then its client may go."""

        async def decode(request: Request, connection: Connection) -> None:
            ready = asyncio.create_task(self._prefilled.wait())
            gone = asyncio.create_task(connection.wait_closed_by_peer())
            done, pending = await asyncio.wait({ready, gone}, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            if ready in done:
                await script(request, connection)

        return decode


@asynccontextmanager
async def staged(mode: str, dialect: str = "sglang", breaker_failures: int = 0, **server: Any) -> AsyncIterator[Stage]:
    """A router with two workers of each role; pairs are of that dialect, and never a decode worker alone.

    At the end every lease must be back, and no connection be left.
    """
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(ScriptedWorker()) for _ in range(2 if mode == "mixed" else 4)]
        first, second = workers[:2], workers[2:]
        urls, pairs = [worker.url for worker in first], [worker.url for worker in second]
        manager = {**QUIET, "breaker_failures": breaker_failures}
        policies = {"policy": "round_robin"}
        if mode == "mixed":
            settings = config(*urls, server=server, scheduler=policies, **manager)
        else:
            policies = {"prefill_policy": "round_robin", "decode_policy": "round_robin", "pd_decode_alone": "never"}
            settings = config(
                server={"splitwise": True} | server,
                scheduler=policies,
                engine=dialect,
                prefill=urls,
                decode=pairs,
                **manager,
            )
        async with running(settings, 2 if mode == "mixed" else 0) as router:
            if mode == "mixed":
                yield Stage(mode, router, Side(first, answering(b"")), None)
            else:
                prefill, decode = Side(first, answering(b"")), Side(second, answering(b""))
                await eventually(lambda: _routable(router) == 4, "all workers are routable", 5)
                sides = (prefill, decode) if mode == "prefill" else (decode, prefill)
                yield Stage(mode, router, *sides)
            await assert_nothing_held(router)


def _routable(router: Router) -> int:
    pairs = router.fleet.pairs(None)
    return len(pairs.prefill.candidates) + len(pairs.decode.candidates)
