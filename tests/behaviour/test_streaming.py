"""Streams pass chunk by chunk, wait for slow clients, and break in the open."""

import asyncio
import json

import pytest
from tests.support.http_client import COMPLETIONS, Client, ask, post
from tests.support.memory import tracing
from tests.support.router import eventually
from tests.support.scripted_worker import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    answering,
    chunk,
    head,
    response,
    streaming,
    then_closing,
    then_resetting,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = post(body={"model": "m", "messages": [], "stream": True})
EVENTS = [b'data: {"n":%d}\n\n' % number for number in range(5)]
MEGABYTE = 2**20


async def test_a_stream_arrives_unchanged(router, worker):
    worker.script = streaming([*EVENTS, DONE])
    answer = await ask(router.port, STREAM)
    assert answer.body == b"".join([*EVENTS, DONE])
    assert answer.values(b"content-type") == [b"text/event-stream"]


async def test_the_request_is_not_kept_while_its_answer_streams(router, worker):
    go_on = asyncio.Event()

    async def script(_request, connection):
        await connection.send(SSE_HEAD + chunk(b"first"))
        await go_on.wait()
        await connection.send(chunk(b"\n\n" + DONE) + LAST_CHUNK)

    worker.script = script
    request = post(body=b'{"messages":["%b"]}' % (b"x" * 4 * MEGABYTE))
    async with await Client.connect(router.port) as client:
        with tracing() as held:
            await client.send(request)
            await client.read_head()
            assert await client.read_chunk() == b"first"
            assert held() < MEGABYTE
        go_on.set()
        assert await client.read_chunk() == b"\n\n" + DONE
        assert await client.read_chunk() == b""


@pytest.mark.parametrize("first", [b"data: 1\r\n\r\n", b": ping\n\n", b"data: half an ev", b"\x00\xff\n"])
async def test_each_chunk_arrives_before_the_next_is_sent(router, worker, first):
    """Whatever it is: the router does not wait for the end of an event or a line."""
    seen = asyncio.Event()

    async def script(_request, connection):
        await connection.send(SSE_HEAD)
        await connection.send(chunk(first))
        await seen.wait()
        await connection.send(chunk(b"\n\n" + DONE) + LAST_CHUNK)

    worker.script = script
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        await client.read_head()
        assert await client.read_chunk() == first
        seen.set()
        assert await client.read_chunk() == b"\n\n" + DONE
        assert await client.read_chunk() == b""


async def test_the_head_waits_for_the_first_byte_of_the_body(router, worker):
    """Some engines send it before they compute: until there is more, another worker can still serve."""
    seen = asyncio.Event()

    async def script(_request, connection):
        await connection.send(SSE_HEAD)
        await seen.wait()
        await connection.send(chunk(DONE) + LAST_CHUNK)

    worker.script = script
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)
        seen.set()
        assert (await client.read_head()).status == 200
        assert await client.read_chunk() == DONE


async def test_a_stream_cut_anywhere_by_the_network_arrives_unchanged(router, worker):
    """One byte at a time, through head, chunk sizes and ends."""
    data = SSE_HEAD + b"".join(map(chunk, [*EVENTS, DONE])) + LAST_CHUNK

    async def script(_request, connection):
        for position in range(len(data)):
            await connection.send(data[position : position + 1])
            await asyncio.sleep(0)

    worker.script = script
    assert (await ask(router.port, STREAM)).body == b"".join([*EVENTS, DONE])


async def test_a_slow_client_makes_the_worker_wait(router, worker):
    """The router takes no more from the worker than sockets and one buffer hold, however much there is."""
    taken = 0
    given_up = asyncio.Event()

    async def script(_request, connection):
        nonlocal taken
        piece = chunk(b"x" * 65536)
        try:
            await connection.send(SSE_HEAD)
            for _ in range(200 * MEGABYTE // 65536):
                await connection.send(piece)
                taken += 65536
        finally:
            given_up.set()

    worker.script = script
    async with await Client.connect(router.port, receive_buffer=65536) as client:
        await client.send(STREAM)
        await client.read_head()
        await _comes_to_rest(lambda: taken)
        at_rest = taken
        assert at_rest < 24 * MEGABYTE
        # The client goes on reading, and so does the router.
        while taken < at_rest + 4 * MEGABYTE:
            assert await asyncio.wait_for(client.reader.read(MEGABYTE), 5)
        client.abort()
        await asyncio.wait_for(given_up.wait(), 5)


async def test_a_client_that_sends_ahead_is_not_read_ahead(router, worker):
    """Pipelined requests wait in the client's socket, not in the router's memory."""
    answer_now = asyncio.Event()

    async def script(_request, connection):
        await answer_now.wait()
        await streaming([DONE])(_request, connection)

    worker.script = script
    request = post(COMPLETIONS, {"model": "m", "prompt": "x" * 65536})
    sent = 0

    async def flood(client):
        nonlocal sent
        while True:
            client.writer.write(request)
            await client.writer.drain()
            sent += len(request)

    async with await Client.connect(router.port) as client:
        flooding = asyncio.create_task(flood(client))
        await _comes_to_rest(lambda: sent)
        assert sent < 24 * MEGABYTE
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        client.abort()
        answer_now.set()


async def _comes_to_rest(amount):
    """Wait until a counter stands still for a while; fails when it never does."""
    async with asyncio.timeout(20):
        before = -1
        while amount() != before or not before:
            before = amount()
            await asyncio.sleep(0.3)


@pytest.mark.parametrize("breaking", [then_resetting, then_closing])
async def test_a_broken_stream_ends_with_an_error_event(router, worker, breaking):
    """No [DONE] after it, and the connection is closed when nothing more comes."""
    worker.script = breaking(SSE_HEAD + chunk(EVENTS[0]) + chunk(EVENTS[1]))
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        answer = await client.read_response()
        assert await client.read_to_end() == b""
    *before, last, rest = answer.body.split(b"\n\n")
    assert b"\n\n".join(before) + b"\n\n" == EVENTS[0] + EVENTS[1]
    assert rest == b""
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].startswith("Backend service failed: connection ")
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("gap", [0, 0.05])
async def test_after_a_broken_stream_the_connection_serves_the_next_request(router, worker, gap):
    worker.script = then_closing(SSE_HEAD + chunk(EVENTS[0]))
    async with await Client.connect(router.port) as client:
        await client.send(STREAM)
        assert b'"error"' in (await client.read_response()).body
        worker.script = answering(response(b"fine"))
        await asyncio.sleep(gap)
        for _ in range(2):
            assert (await client.ask(post())).body == b"fine"
        await asyncio.sleep(1.2)  # the second that it would have had without another request
        assert (await client.ask(post())).body == b"fine"


async def test_a_request_that_was_sent_behind_a_broken_stream_is_served(router, worker):
    scripts = iter([then_closing(SSE_HEAD + chunk(EVENTS[0])), answering(response(b"fine"))])

    async def script(request, connection):
        await next(scripts)(request, connection)

    worker.script = script
    async with await Client.connect(router.port) as client:
        await client.send(STREAM + post())
        assert b'"error"' in (await client.read_response()).body
        assert (await client.read_response()).body == b"fine"


async def test_an_event_cut_in_half_is_ended_before_the_error(router, worker):
    worker.script = then_closing(SSE_HEAD + chunk(EVENTS[0]) + chunk(b'data: {"half'))
    answer = await ask(router.port, STREAM)
    events = answer.body.split(b"\n\n")
    assert events[1] == b'data: {"half'
    assert b'"error"' in events[2]


async def test_a_stream_without_an_end_of_its_own_is_complete_when_it_closes(router, worker):
    """Without length and chunks the close is the end; nobody can tell it from a break."""
    sse = head(b"200 OK", [(b"Content-Type", b"text/event-stream"), (b"Connection", b"close")])
    worker.script = then_closing(sse + EVENTS[0] + DONE)
    assert (await ask(router.port, STREAM)).body == EVENTS[0] + DONE


@pytest.mark.parametrize(
    "partial",
    [
        head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Content-Length", b"1000")]) + b'{"half":',
        head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Transfer-Encoding", b"chunked")])
        + chunk(b'{"half":'),
        head(b"200 OK", [(b"Content-Type", b"application/json"), (b"Transfer-Encoding", b"chunked")])
        + chunk(b'{"half":')
        + b"zz\r\nno chunk",
    ],
    ids=["length", "chunked", "bad chunk size"],
)
@pytest.mark.parametrize("breaking", [then_resetting, then_closing])
async def test_a_broken_answer_is_closed_where_it_broke(router, worker, partial, breaking):
    """The client sees an incomplete message: never a complete one, and nothing added."""
    worker.script = breaking(partial)
    async with await Client.connect(router.port) as client:
        await client.send(post())
        await client.read_head()
        rest = await client.read_to_end()
    assert not rest.endswith(LAST_CHUNK)
    assert len(rest) < 1000
    assert b"error" not in rest
    assert len(worker.requests) == 1


async def test_a_broken_stream_is_told_to_an_http_1_0_client(router, worker):
    worker.script = then_closing(SSE_HEAD + chunk(EVENTS[0]))
    async with await Client.connect(router.port) as client:
        await client.send(post(body={"model": "m", "messages": [], "stream": True}, version=b"1.0"))
        answer = await client.read_response()
    assert answer.body.startswith(EVENTS[0] + b"data: ")
    assert b'"error"' in answer.body


async def test_many_streams_at_once_do_not_mix(router, worker):
    async def script(request, connection):
        await connection.send(SSE_HEAD)
        for number in range(10):
            await connection.send(chunk(b"data: %b %d\n\n" % (request.body, number)))
            await asyncio.sleep(0.001)
        await connection.send(chunk(DONE) + LAST_CHUNK)

    worker.script = script

    async def one(number):
        body = b'{"stream":true,"n":%d}' % number
        answer = await ask(router.port, post(body=body))
        assert answer.body == b"".join(b"data: %b %d\n\n" % (body, event) for event in range(10)) + DONE

    await asyncio.gather(*map(one, range(40)))
    await eventually(lambda: router.ledger.open_leases == 0, "every lease is back")
