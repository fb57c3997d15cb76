"""An engine that is stuck behind a server that passes probes: found by the answers that it does not begin."""

import asyncio
import itertools
from collections import defaultdict

import pytest
from tests.support.http_client import Client
from tests.support.pd import DIALECTS, PREFILL_ANSWER, STREAM_BODY, chat, good_answer, pairs_over
from tests.support.router import eventually

from warmroute.fleet.silence import SilenceRules
from warmroute.fleet.times import FleetTimes

SOON = FleetTimes(housekeeping=0.05, silence=SilenceRules(suspicious=0.1, stuck=0.8, times=0, answers=5))


class Engines:
    """Prefill workers compute prompts, decode workers wait for that where a dialect lets both begin at once.

    The `stuck` worker does neither, until it `thaws`.
    """

    def __init__(self, pairs, dialect: str, role: str) -> None:
        self.stuck = (pairs.prefill if role == "prefill" else pairs.decode).workers[0]
        self.thaws = asyncio.Event()
        self._in_turn = dialect == "vllm"
        self._computed: defaultdict[bytes, asyncio.Event] = defaultdict(asyncio.Event)
        self._pairs = pairs
        pairs.prefill.then = self._prefill
        pairs.decode.then = self._decode

    async def _prefill(self, request, connection):
        await self._wait(self._pairs.prefill)
        self._computed[request.body].set()
        await connection.send(PREFILL_ANSWER)

    async def _decode(self, request, connection):
        await self._wait(self._pairs.decode)
        if not self._in_turn:
            await self._computed[request.body].wait()
        await good_answer(stream=True)(request, connection)

    async def _wait(self, side):
        if side.seen_by[-1] is self.stuck:
            await self.thaws.wait()


async def ask(port: int, number: int) -> None:
    async with await Client.connect(port) as client:
        answer = await client.ask(chat(True, seed=number))
        assert (answer.status, answer.body) == (200, STREAM_BODY)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_stuck_worker_gets_no_more_requests_until_it_answers(dialect, role):
    async with pairs_over(dialect, 2, 3, times=SOON) as pairs:
        engines = Engines(pairs, dialect, role)
        fleet, numbers = pairs.router.fleet, itertools.count()
        member = fleet.get(engines.stuck.url)
        asking = []
        async with asyncio.timeout(20):
            while member.stuck_since is None:
                asking.append(asyncio.create_task(ask(pairs.router.port, next(numbers))))
                await asyncio.sleep(0.02)
        assert [other for other in fleet.members if other.stuck_since is not None] == [member]
        assert member.state == "healthy"
        given = member.running
        await eventually(lambda: len(engines.stuck.requests) == given, "what was sent has arrived", 5)
        for _ in range(6):
            await asyncio.wait_for(ask(pairs.router.port, next(numbers)), 5)
        assert len(engines.stuck.requests) == given
        engines.thaws.set()
        await asyncio.wait_for(asyncio.gather(*asking), 10)  # nothing that waited there was taken away
        await eventually(lambda: member.stuck_since is None, "it is no longer stuck", 5)
        assert pairs.routable() == 5
