"""How a row of the first table of docs/reference/faults.md is played, and what is checked then."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from tests.behaviour.test_failover import unanswering_port
from tests.faults.stage import Stage, staged
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
from tests.support.http_client import Client
from tests.support.pd import JSON_BODY, STREAM_BODY, chat
from tests.support.router import assert_nothing_held, eventually
from tests.support.scripted_worker import LAST_CHUNK

ROWS = worker_faults()
AT_THE_DOOR = {
    "resets before it reads the request": lambda _: reset_at_once,
    "closes before it reads the request": lambda _: close_at_once,
    "answers before it has read the request": lambda stream: answer_early(stream=stream),
}
NOT_THERE = ("refuses connections", "takes no connection")
DEADLINES = {"connect_timeout": "connect", "first_byte_timeout": "first_byte", "silent": "stream_idle"}


def cases(modes, dialects, *, is_short: bool = False):
    """Row, mode, dialect, whether a stream, whether others are left. `is_short`: half of them, streams where others
    are.
    """
    return [
        pytest.param(
            *(row, mode, dialect, stream, others),
            id=f"{row.name}-{mode}-{dialect}-{'stream' if stream else 'whole'}-{others}",
        )
        for row in ROWS
        for mode in modes
        for dialect in dialects
        for stream in (False, True)
        for others in ("others", "none left")
        if others == "others" or follows(row, mode, dialect, stream) == "another"
        if stream or row.reason != "unfinished" or mode == "prefill"
        if not is_short or stream == (others == "others") or follows(row, mode, dialect, stream) == "its answer"
    ]


def follows(row: WorkerFault, mode: str, dialect: str, stream: bool) -> str:
    """What the table says."""
    what = row.follows(mode)
    holds = dialect == "fastdeploy" and mode == "decode" and not stream
    return "another" if holds and what == "broken off" else what


async def play_row(stages, row: WorkerFault, mode: str, dialect: str, stream: bool, others: str) -> None:
    """On a stage that is used again, unless connections themselves are what fails."""
    times = 1 if others == "others" else 2
    if row.name in NOT_THERE or row.name in AT_THE_DOOR:
        async with staged(mode, dialect, connect_timeout=0.3) as stage, AsyncExitStack() as stack:
            await asyncio.sleep(0.3)  # for what follows the first probes
            await stage.begin(good(stream=stream))
            stage.expects(follows(row, mode, dialect, stream))
            await _at_the_door(stage, stack, row, stream, times)
        return
    hasty = row.reason in ("first_byte_timeout", "silent")
    stage = await stages.of(mode, dialect, hasty=hasty)
    await stage.begin(good(stream=stream))
    stage.expects(follows(row, mode, dialect, stream))
    stage.fail(BY_NAME[row.name](stream), times)
    await play(stage, row, chat(stream), stream, times)
    await check(stage, row, stream, times)


async def _at_the_door(stage: Stage, stack: AsyncExitStack, row: WorkerFault, stream: bool, times: int) -> None:
    request = chat(stream)
    if row.name in AT_THE_DOOR:
        if row.name.startswith("answers"):
            request = chat(stream, padding="x" * 20_000_000)
        stage.fail_to_accept(AT_THE_DOOR[row.name](stream), times)
    else:
        for worker in stage.failing.workers[:times]:
            await worker.stop_listening()
            if row.name == "takes no connection":
                stack.enter_context(unanswering_port(worker.port))
    await play(stage, row, request, stream, times)
    if times == 1 and row.name in NOT_THERE:
        await play(stage, row, request, stream, times)  # whoever's turn it was
    await check(stage, row, stream, times)


async def play(stage: Stage, row: WorkerFault, request: bytes, stream: bool, times: int) -> None:
    """Ask, and check what the client gets."""
    outcome = stage.expected if times == 1 else row.none_left
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


async def check(stage: Stage, row: WorkerFault, stream: bool, times: int) -> None:
    """Check leases, metrics and the worker's connection."""
    await assert_nothing_held(stage.router)
    expects = stage.expected
    counted = stage.counted()
    expected, broken = Counter(), Counter()
    if expects in ("another", "its answer") and row.reason != "nothing":
        expected[row.reason] = times
    elif expects == "broken off":
        expected["broken_stream" if stream else row.reason] = 1
        broken[row.reason] += stream
    assert counted["failed_attempts"] == expected
    assert counted["broken_streams"] == +broken
    for reason, deadline in DEADLINES.items():
        assert counted["deadlines"][deadline] == (times if reason == row.reason else 0)
    if row.connection == "closed":
        await eventually(lambda: not any(map(stage.is_open, stage.connections)), "the connection is closed")
    elif row.connection == "kept":
        assert stage.connections
        await asyncio.sleep(0.02)
        assert all(map(stage.is_open, stage.connections))
