"""Every row of the first table of docs/reference/faults.md."""

import asyncio
import json
from collections import Counter

import pytest
from tests.faults.stage import MODES, staged
from tests.faults.table import WorkerFault, worker_faults
from tests.faults.worker_faults import (
    BY_NAME,
    ERROR_BODY,
    QUEUE_FULL,
    answer_early,
    close_at_once,
    good,
    part,
    reset_at_once,
)
from tests.support.http_client import Client, post
from tests.support.pd import JSON_BODY, STREAM_BODY, chat
from tests.support.router import assert_nothing_held, eventually
from tests.support.scripted_worker import LAST_CHUNK

from warmroute.prompts.body import read_request
from warmroute.prompts.ladder import Ladder

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = worker_faults()
AT_THE_DOOR = {
    "resets before it reads the request": lambda _: reset_at_once,
    "closes before it reads the request": lambda _: close_at_once,
    "answers before it has read the request": lambda stream: answer_early(stream=stream),
}
CASES = [
    pytest.param(row, mode, stream, others, id=f"{row.name}-{mode}-{'stream' if stream else 'whole'}-{others}")
    for row in ROWS
    for mode in MODES
    for stream in (False, True)
    for others in ("others", "none left")
    if others == "others" or row.follows(mode) == "another"
    if stream or row.reason != "unfinished" or mode == "prefill"
]


async def test_every_row_is_played():
    assert {row.name for row in ROWS} == {*BY_NAME, *AT_THE_DOOR, "refuses connections"}


@pytest.mark.parametrize(("row", "mode", "stream", "others"), CASES)
async def test_row(stages, row: WorkerFault, mode: str, stream: bool, others: str):
    times = 1 if others == "others" else 2
    request = chat(stream)
    if row.name == "refuses connections" or row.name in AT_THE_DOOR:
        async with staged(mode) as stage:
            await asyncio.sleep(0.3)  # for what follows the first probes
            await stage.begin(good(stream=stream))
            if row.name in AT_THE_DOOR:
                if row.name.startswith("answers"):
                    request = chat(stream, padding="x" * 20_000_000)
                stage.fail_to_accept(AT_THE_DOOR[row.name](stream), times, serves=row.follows(mode) == "served")
            else:
                for worker in stage.failing.workers[:times]:
                    await worker.stop_listening()
            await play(stage, row, request, stream, times)
            if not times - 1 and row.name.startswith("refuses"):
                await play(stage, row, request, stream, times)  # whoever's turn it was
            await check(stage, row, stream, times)
        return
    hasty = row.reason in ("first_byte_timeout", "silent")
    stage = await stages.of(mode, hasty=hasty)
    await stage.begin(good(stream=stream))
    stage.fail(BY_NAME[row.name](stream), times, serves=row.follows(mode) == "served")
    await play(stage, row, request, stream, times)
    await check(stage, row, stream, times)


async def play(stage, row: WorkerFault, request: bytes, stream: bool, times: int) -> None:
    """Ask, and check what the client gets."""
    outcome = row.follows(stage.mode) if times == 1 else row.none_left
    async with await Client.connect(stage.router.port) as client:
        await client.send(request)
        head = await client.read_head()
        if outcome == "broken off":
            rest = await client.read_to_end() if not stream else await read_stream(client)
            assert head.status == 200
            assert rest.startswith(part(stream=stream)) or part(stream=stream) in rest
            check_broken(rest, stream)
            return
        body = await asyncio.wait_for(client._read_body(head), 5)
    if outcome in ("another", "served"):
        assert head.status == 200
        assert body == (STREAM_BODY if stream else JSON_BODY)
        assert not head.values(b"x-trailer")
    elif outcome == "its answer":
        assert head.status == int(row.name.split()[1])
        assert head.reason == b"Its Reason"
        assert head.value(b"x-engine") == b"yes"
        assert body == (QUEUE_FULL if "queue" in row.name else ERROR_BODY)
    else:
        head.body = body
        assert head.status == int(outcome)
        assert head.error["type"] == "server_error"
        assert head.values(b"x-router-worker-url")


async def read_stream(client: Client) -> bytes:
    received = b""
    while chunk := await client.read_chunk():
        received += chunk
    return received


def check_broken(rest: bytes, stream: bool) -> None:
    if stream:
        last = rest.rstrip().rpartition(b"\n\n")[2]
        assert last.startswith(b'data: {"error": {')
        assert b"[DONE]" not in rest
    else:
        assert not rest.endswith(LAST_CHUNK)
        assert b"error" not in rest


async def check(stage, row: WorkerFault, stream: bool, times: int) -> None:
    """Check leases, metrics and the worker's connection."""
    await assert_nothing_held(stage.router)
    follows = row.follows(stage.mode)
    counted = stage.counted()
    expected, broken = Counter(), Counter()
    if follows in ("another", "its answer") and row.reason != "nothing":
        expected[row.reason] = times
    elif follows == "broken off":
        expected["broken_stream" if stream else row.reason] = 1
        broken[row.reason] += stream
    assert counted["failed_attempts"] == expected
    assert counted["broken_streams"] == +broken
    deadline = {"first_byte_timeout": "first_byte", "silent": "stream_idle"}.get(row.reason)
    assert counted["deadlines"]["first_byte"] == (times if deadline == "first_byte" else 0)
    assert counted["deadlines"]["stream_idle"] == (times if deadline == "stream_idle" else 0)
    if row.connection == "closed":
        await eventually(lambda: not any(map(stage.is_open, stage.connections)), "the connection is closed")
    elif row.connection == "kept":
        assert stage.connections
        await asyncio.sleep(0.02)
        assert all(map(stage.is_open, stage.connections))


async def test_only_the_worker_that_served_is_learned(stages):
    """Whatever the policy, the index knows one worker for the prompt afterwards."""
    stage = await stages.of("mixed")
    await stage.begin(good(stream=False))
    stage.fail(BY_NAME["answers 500"](False), 1, serves=False)
    body = {"model": "m", "messages": [{"role": "user", "content": "learned once " * 100}]}
    async with await Client.connect(stage.router.port) as client:
        assert (await client.ask(post(body=body))).status == 200
    prompt = read_request(json.dumps(body).encode(), "chat", Ladder.default())
    (learned,) = stage.router.index.match(prompt.fingerprint)
    failed, served = stage.failing.seen_by
    assert failed is not served
    assert learned.url == served.url
