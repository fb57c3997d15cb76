"""A client that leaves: whatever runs for it on either side ends at once, and both leases are back."""

import asyncio

import pytest
import pytest_asyncio
from tests.support.http_client import Client, ask
from tests.support.pd import DIALECTS, EVENTS, PREFILL_ANSWER, Waiting, chat, good_answer, pairs_over
from tests.support.router import assert_nothing_held, eventually
from tests.support.scripted_worker import SSE_HEAD, answering, chunk, head, response

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON_HEAD = head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Content-Length", b"1000")])
# What prefill and decode have answered when the client leaves.
TOGETHER = {
    "nothing yet": (b"", b""),
    "prefill is inside its head": (b"HTTP/1.1 2", b""),
    "prefill is inside its body": (JSON_HEAD + b"{", b""),
    "prefill is inside an error": (head(b"500 Oops", [(b"Content-Length", b"9")]), None),
    "prefill is over": (None, b""),
    "decode sent its head": (b"", SSE_HEAD),
    "decode is inside an error": (None, head(b"500 Oops", [(b"Content-Length", b"9")])),
    "mid-stream, prefill is not over": (SSE_HEAD + chunk(b"data: 1\n\n"), SSE_HEAD + chunk(EVENTS[0])),
    "mid-stream, prefill is over": (None, SSE_HEAD + chunk(EVENTS[0])),
    "mid-body": (None, JSON_HEAD + b'{"choices":'),
}
IN_TURN = {
    "nothing yet": (b"", None),
    "prefill is inside its body": (JSON_HEAD + b"{", None),
    "prefill is inside an error": (head(b"500 Oops", [(b"Content-Length", b"9")]), None),
    "decode begins": (None, b""),
    "decode sent its head": (None, SSE_HEAD),
    "decode is inside an error": (None, head(b"500 Oops", [(b"Content-Length", b"9")])),
    "mid-stream": (None, SSE_HEAD + chunk(EVENTS[0])),
    "mid-body": (None, JSON_HEAD + b'{"choices":'),
}
CASES = [
    pytest.param(dialect, *answers, id=f"{dialect} {stage}")
    for dialect in DIALECTS
    for stage, answers in (IN_TURN if dialect == "vllm" else TOGETHER).items()
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def routers():
    async with pairs_over("fastdeploy") as one, pairs_over("sglang") as other, pairs_over("vllm") as third:
        yield dict(zip(DIALECTS, (one, other, third), strict=True))


@pytest.mark.parametrize("leave", ["close", "abort"])
@pytest.mark.parametrize(("dialect", "prefill", "decode"), CASES)
async def test_both_legs_end_and_both_leases_are_back(routers, dialect, prefill, decode, leave, record_property):
    pairs = routers[dialect]
    pairs.prefill.forget(answering(PREFILL_ANSWER))
    pairs.decode.forget(good_answer(stream=True))
    before = pairs.statuses()
    sides = ((pairs.prefill, prefill), (pairs.decode, decode))
    waiting = [(side, Waiting(answer)) for side, answer in sides if answer is not None]
    for side, one in waiting:
        side.first = [one]
    async with await Client.connect(pairs.router.port) as client:
        await client.send(chat(stream=True))
        for _, one in waiting:
            await asyncio.wait_for(one.started.wait(), 5)
        await asyncio.sleep(0.01)
        assert pairs.router.ledger.open_leases >= 1
        left_at = asyncio.get_running_loop().time()
        if leave == "abort":
            client.abort()
        else:
            client.writer.close()
        for _, one in waiting:
            record_property("closed_after_ms", round((await one.closed_at() - left_at) * 1000, 2))
        await assert_nothing_held(pairs.router)
    await eventually(lambda: (pairs.statuses() - before)["decode", 499] == 1, "the request is counted as left")
    counted = pairs.statuses() - before
    if prefill is None:
        assert counted["prefill", 200] == 1
    elif not prefill.startswith(b"HTTP/1.1 500"):
        assert counted["prefill", 499] == 1
    assert len(pairs.prefill.seen) == 1
    assert (await ask(pairs.router.port, chat())).status == 200


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_that_leaves_during_the_second_attempt(dialect):
    async with pairs_over(dialect, 1, 2) as pairs:
        again = Waiting()
        pairs.decode.first = [answering(response(b"busy", b"503 Busy")), again]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat())
            await asyncio.wait_for(again.started.wait(), 5)
            client.abort()
            await again.closed_at()
            await assert_nothing_held(pairs.router)


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
async def test_hundred_clients_leave_at_once(dialect):
    async with pairs_over(dialect, keeps_connections=False) as pairs:
        pairs.prefill.then, pairs.decode.then = Waiting(), Waiting()
        clients = [await Client.connect(pairs.router.port) for _ in range(100)]
        for client in clients:
            await client.send(chat(stream=True))
        await eventually(lambda: pairs.router.ledger.open_leases == 200, "all requests hold two leases", 5)
        for client in clients:
            client.abort()
        await eventually(lambda: pairs.router.ledger.open_leases == 0, "all leases are back", 2)
        await eventually(lambda: pairs.router.gateway.upstream_connections == 0, "no connection is left", 2)
