"""Every row of docs/reference/pd-failures.md, for each dialect, as a stream and not, with and without others to try.

The leg that fails does so when the other has its request, so that there is one to cancel. (In turn, the decode leg has
none when prefill fails, and prefill is over when decode fails.)
"""

import asyncio
from itertools import count

import pytest
import pytest_asyncio
from tests.support.failure_table import read_rows
from tests.support.http_client import Client, ask
from tests.support.pd import (
    DIALECTS,
    EVENTS,
    JSON_BODY,
    PREFILL_ANSWER,
    STREAM_BODY,
    Failing,
    Waiting,
    chat,
    good_answer,
    pairs_over,
)
from tests.support.router import assert_nothing_held
from tests.support.scripted_worker import SSE_HEAD, answering, chunk, head, response, then_closing, then_resetting

from warmroute.gateway.failure_log import FailureLog
from warmroute.gateway.retry_budget import RetryBudget

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = read_rows()
BEFORE_BYTES = [row for row in ROWS if not row.has_bytes and row.event not in ("refused", "timeout")]
JSON_HEAD = head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Content-Length", b"1000")])
CLOSING = {
    "before the head": then_closing(b""),
    "by a reset": then_resetting(),
    "inside the head": then_closing(b"HTTP/1.1 200 OK\r\nContent-"),
    "no http": answering(b"garbage\r\n\r\n"),
    "after the head": then_closing(SSE_HEAD),
    "inside the body": then_resetting(JSON_HEAD + b"{"),
    "inside a stream": then_closing(SSE_HEAD + chunk(b"data: 1\n\n")),
    "inside an error": then_closing(head(b"500 Oops", [(b"Content-Length", b"1000")]) + b"{"),
}
CASES = [
    pytest.param(row, how, id=f"{row} {how}".strip())
    for row in BEFORE_BYTES
    for how in (CLOSING if row.event == "closed" else ("",))
    # From here on the client has bytes: another row.
    if not (row.leg == "decode" and how in ("inside the body", "inside a stream"))
]


def error_answer(status: int, number: int) -> tuple[bytes, bytes]:
    """An engine's error, head and body, which nobody could have made up."""
    body = b'{"error":{"message":"number %d of %d"}}' % (number, status)
    return response(body, b"%d Its Reason" % status, [(b"X-Engine", b"%d" % number)]), body


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=DIALECTS)
async def shared(request):
    # A kept connection that has died is no failure, so none is kept here.
    async with pairs_over(request.param, 2, 2, keeps_connections=False, pd_decode_alone="never") as pairs:
        pairs.dialect = request.param
        yield pairs


@pytest_asyncio.fixture(loop_scope="module")
async def pairs(shared):
    """A router with two prefill and two decode workers, as if new."""
    shared.prefill.forget(answering(PREFILL_ANSWER))
    shared.decode.forget(good_answer(stream=False))
    shared.before = shared.statuses()
    shared.router.gateway.retry_budget = RetryBudget(0.2)
    yield shared
    await assert_nothing_held(shared.router)


def plan(pairs, row, how: str, times: int):
    """Let the side fail so many times, while the other waits. Returns what failed, who waited and the last error."""
    failing, other = (pairs.prefill, pairs.decode) if row.leg == "prefill" else (pairs.decode, pairs.prefill)
    failures, waiting, last = [], [], b""
    for number in range(times):
        partner = Waiting() if pairs.dialect != "vllm" else None
        if how:
            script = CLOSING[how]
        else:
            answer, last = error_answer(row.event, number)
            script = answering(answer)
        failures.append(Failing(script, partner))
        if partner is not None:
            waiting.append(partner)
    failing.first, other.first = list(failures), list(waiting)
    return failing, failures, waiting, last


async def check_cancelled(failures, waiting, record_property):
    for failure, partner in zip(failures, waiting, strict=False):
        seconds = await partner.closed_at() - failure.failed_at
        record_property("closed_after_ms", round(seconds * 1000, 2))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("row", "how"), CASES)
async def test_with_others_to_try(pairs, row, how, stream, record_property):
    pairs.decode.then = good_answer(stream)
    failing, failures, waiting, last = plan(pairs, row, how, 1)
    answer = await ask(pairs.router.port, chat(stream))
    await check_cancelled(failures, waiting, record_property)
    counted = pairs.statuses() - pairs.before
    if row.follows == "its answer":
        assert (answer.status, answer.reason, answer.body) == (row.event, b"Its Reason", last)
        assert len(failing.seen) == 1
        assert counted["decode", row.event] == 1
    else:
        assert (answer.status, answer.body) == (200, STREAM_BODY if stream else JSON_BODY)
        first, second = failing.seen_by
        assert first is not second
        if pairs.dialect != "vllm":
            assert failing.seen[0].body != failing.seen[1].body, "a handle is never used twice"
        assert counted["decode", 200] == 1
        if row.leg == "prefill":
            assert counted["prefill", row.event if not how else 502] == 1
    assert sum(count for (role, _), count in counted.items() if role == "decode") == 1
    if pairs.dialect == "vllm" and row.leg == "prefill":
        assert len(pairs.decode.seen) == len(failing.seen) - 1, "decode hears nothing of a prefill that failed"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("row", "how"), [case for case in CASES if case.values[0].none_left])
async def test_when_none_is_left(pairs, row, how, stream, record_property, caplog):
    pairs.router.gateway.failures = FailureLog(count().__next__)  # time enough between any two lines
    pairs.decode.then = good_answer(stream)
    failing, failures, waiting, last = plan(pairs, row, how, 2)
    answer = await ask(pairs.router.port, chat(stream))
    await check_cancelled(failures, waiting, record_property)
    if row.none_left == "its answer":
        assert (answer.status, answer.body) == (row.event, last)
        assert answer.values(b"x-engine") == [b"1"]
    else:
        assert answer.status == int(row.none_left)
        assert answer.error["message"].startswith("Failed to connect to backend service")
    first, second = failing.seen_by
    assert first is not second
    assert all(f" failed: worker {worker.url}: " in caplog.text for worker in failing.seen_by)
    assert (pairs.statuses() - pairs.before)["decode", answer.status] == 1


@pytest.mark.parametrize("answered", [False, True])
async def test_the_last_answer_counts_even_if_another_worker_gave_none_after_it(pairs, answered):
    answer, body = error_answer(503, 0)
    pairs.decode.first = [answering(answer), then_closing(b"")] if answered else [then_closing(b""), answering(answer)]
    response = await ask(pairs.router.port, chat())
    assert (response.status, response.body) == (503, body)


@pytest.mark.parametrize("row", [row for row in ROWS if row.has_bytes], ids=str)
async def test_when_the_client_has_bytes(pairs, row, caplog):
    if row.leg == "prefill" and pairs.dialect == "vllm":
        return  # prefill is over by then
    begun = SSE_HEAD + chunk(EVENTS[0])
    go_on = asyncio.Event()

    async def decode(_request, connection):
        await connection.send(begun)
        await go_on.wait()
        if row.leg == "decode":
            await connection.reset()
        else:
            await connection.send(b"".join(map(chunk, EVENTS[1:])) + b"0\r\n\r\n")

    async def prefill(_request, connection):
        await go_on.wait()
        if row.event == "closed":
            await connection.reset()
        else:
            await connection.send(error_answer(row.event, 0)[0])

    pairs.decode.first = [decode]
    if row.leg == "prefill":
        pairs.prefill.first = [prefill]
    async with await Client.connect(pairs.router.port) as client:
        await client.send(chat(stream=True))
        answer = await client.read_head()
        assert await client.read_chunk() == EVENTS[0]
        go_on.set()
        rest = b""
        while part := await client.read_chunk():
            rest += part
    assert answer.status == 200
    if row.follows == "logged":
        assert EVENTS[0] + rest == STREAM_BODY
        assert "while the decode worker was answering" in caplog.text
    else:
        assert rest.startswith(b'data: {"error": ')
        assert b"[DONE]" not in rest
    assert len(pairs.prefill.seen) == len(pairs.decode.seen) == 1


async def test_a_broken_body_that_is_no_stream_is_cut(pairs):
    if pairs.dialect != "sglang":
        return  # the others hold such an answer until it is whole
    pairs.decode.first = [then_resetting(JSON_HEAD + b"abc")]
    async with await Client.connect(pairs.router.port) as client:
        await client.send(chat())
        await client.read_head()
        assert await client.read_to_end() == b"abc"
