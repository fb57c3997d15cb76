"""The decode worker of a pair goes out of order while the prompt is computed: another one decodes (vLLM)."""

import asyncio

import pytest
from tests.support.http_client import Client
from tests.support.pd import HANDLE, JSON_BODY, PREFILL_ANSWER, Waiting, chat, pairs_over
from tests.support.router import eventually
from tests.support.scripted_worker import answering, response

FROZEN = "did not answer in time"


class Computing:
    """A prefill worker that answers when it is told to."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, request, connection):
        self.started.set()
        await self.may_end.wait()
        await connection.send(PREFILL_ANSWER)


def held_on(pairs):
    """The decode worker that a request holds, of the scripted ones and of the fleet."""
    (held,) = [
        worker for worker in pairs.router.fleet.workers() if worker.role == "decode" and worker.load.running_requests
    ]
    (scripted,) = [worker for worker in pairs.decode.workers if worker.url == held.url]
    return scripted, pairs.router.fleet.get(held.url)


def take_out(how: str, router, member) -> None:
    if how == "frozen":
        router.fleet._roster.record_probe(member, False, FROZEN, timed_out=True)
    elif how == "stuck":
        member.stuck_since = 1.0
        router.fleet._roster.pools.invalidate()
    elif how == "drained":
        router.fleet.drain(member.id)
    else:
        router.fleet.deregister(member.id, for_good=True)


@pytest.mark.parametrize("how", ["frozen", "stuck", "drained", "leaving"])
async def test_the_computed_prompt_goes_to_another_decode_worker(how):
    async with pairs_over("vllm", 1, 2) as pairs:
        pairs.prefill.first = [computing := Computing()]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat())
            await asyncio.wait_for(computing.started.wait(), 5)
            chosen, member = held_on(pairs)
            take_out(how, pairs.router, member)
            computing.may_end.set()
            answer = await client.read_response()
        (other,) = [worker for worker in pairs.decode.workers if worker is not chosen]
        assert (answer.status, answer.body) == (200, JSON_BODY)
        assert answer.value(b"x-router-worker-url") == answer.value(b"x-router-decode-url") == other.url.encode()
        assert answer.value(b"x-router-prefill-url") == pairs.prefill.workers[0].url.encode()
        assert pairs.decode.seen_by == [other]
        assert HANDLE in pairs.decode.seen[0].body
        assert pairs.statuses()["decode", 200] == 1
        assert not pairs.router.metrics.failed_attempts


async def test_with_nobody_else_the_chosen_one_is_asked_all_the_same():
    async with pairs_over("vllm", 1, 1) as pairs:
        pairs.prefill.first = [computing := Computing()]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat())
            await asyncio.wait_for(computing.started.wait(), 5)
            take_out("drained", pairs.router, held_on(pairs)[1])
            computing.may_end.set()
            assert (await client.read_response()).body == JSON_BODY


async def test_a_decode_worker_that_this_request_has_tried_is_not_chosen_anew():
    """The first one fails, the second is taken out while the prompt is computed once more: it is asked."""
    async with pairs_over("vllm", 1, 2) as pairs:
        pairs.decode.first = [answering(response(b"no", b"500 Oops"))]
        pairs.prefill.first = [answering(PREFILL_ANSWER), computing := Computing()]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat())
            await asyncio.wait_for(computing.started.wait(), 5)
            chosen, member = held_on(pairs)
            take_out("drained", pairs.router, member)
            computing.may_end.set()
            assert (await client.read_response()).body == JSON_BODY
        assert pairs.decode.seen_by[1] is chosen
        assert pairs.decode.seen_by[0] is not chosen


async def test_without_a_free_place_elsewhere_nobody_is_waited_for():
    async with pairs_over("vllm", 2, 2, max_inflight_per_worker=1) as pairs:
        busy = Waiting()
        pairs.decode.first = [busy]
        pairs.prefill.first = [answering(PREFILL_ANSWER), computing := Computing()]
        async with await Client.connect(pairs.router.port) as first, await Client.connect(pairs.router.port) as client:
            await first.send(chat())
            await asyncio.wait_for(busy.started.wait(), 5)
            await client.send(chat())
            await asyncio.wait_for(computing.started.wait(), 5)
            (chosen,) = [worker for worker in pairs.decode.workers if worker is not pairs.decode.seen_by[0]]
            take_out("drained", pairs.router, pairs.router.fleet.get(chosen.url))
            computing.may_end.set()
            assert (await client.read_response()).body == JSON_BODY
            assert pairs.decode.seen_by[1] is chosen
            first.abort()
            await eventually(lambda: pairs.router.ledger.open_leases == 0, "the other request is over")
