"""Random and damaged bytes, cut at random, against one live router: an answer or a close, and nothing is kept."""

import asyncio
import threading

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.http_client import Client, post
from tests.support.router import assert_nothing_held, router_over
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, ScriptedWorker, answering, chunk, response

CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"{}") + LAST_CHUNK
VALID = [
    post(),
    post("/v1/completions", {"model": "m", "prompt": [1, 2, 3], "max_tokens": 5, "stream": True}),
    post("/v1/embeddings", {"input": ["a", "b"], "session_id": "s", "extra_body": {"session_id": "t"}}),
    post(headers=[(b"Expect", b"100-continue"), (b"Connection", b"close"), (b"X-Request-Id", b"r")]),
    post(version=b"1.0"),
    post(headers=[(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]),
    CHUNKED,
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /register HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
]
TOKENS = [b"\r\n", b"\r\n\r\n", b"\n", b" ", b":", b"\x00", b"\xff", b"{", b'"', b"Content-Length: 5\r\n", b"0\r\n\r\n"]
TOKENS += [
    b"Transfer-Encoding: chunked\r\n",
    b"HTTP/1.1",
    b"HTTP/2.0",
    b"POST ",
    b"Connection: close\r\n",
    b"-1",
    b"99999999",
]


@st.composite
def damaged(draw):
    """Valid requests, one after the other, with a few bytes replaced, inserted, dropped or repeated."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        new = draw(st.sampled_from(TOKENS) | st.binary(max_size=8))
        data[start:end] = draw(st.sampled_from([new, bytes(data[start:end]) * 2, b""]))
    return bytes(data)


@st.composite
def cut(draw, data):
    """The same bytes in pieces."""
    ends = sorted(draw(st.lists(st.integers(0, len(data)), max_size=4)))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


pieces_of = (damaged() | st.binary(max_size=400)).flatmap(cut)


class LiveRouter:
    """A router and its worker on a loop of their own, so that hypothesis can drive them from outside."""

    def __init__(self):
        self.loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self.failure = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        assert self.failure is None
        return self

    def __exit__(self, *_exc):
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert self.failure is None

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def _run(self):
        try:
            self.loop.run_until_complete(self._live())
        except BaseException as error:
            self.failure = error
        finally:
            self._ready.set()
            self.loop.close()

    async def _live(self):
        async with ScriptedWorker() as self.worker, router_over(self.worker) as self.router:
            self._ready.set()
            await self._stop.wait()


@pytest.fixture(scope="module")
def live():
    with LiveRouter() as router:
        yield router


async def _exchange(router, pieces, abort):
    async with await Client.connect(router.port) as client:
        for piece in pieces:
            await client.send(piece)
            await asyncio.sleep(0)
        if abort:
            client.abort()
            received = b""
        else:
            client.end_sending()
            received = await client.read_to_end()
    await assert_nothing_held(router)
    return received


fuzz = settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@fuzz
@given(pieces=pieces_of, abort=st.booleans())
def test_any_bytes_get_an_answer_or_a_close(live, pieces, abort):
    received = live.run(_exchange(live.router, pieces, abort))
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert b"Traceback" not in received
    assert b" 500 " not in received.split(b"\r\n", 1)[0]


ANSWERS = [
    response(b"abc"),
    SSE_HEAD + chunk(b"data: 1\n\n") + chunk(b"data: [DONE]\n\n") + LAST_CHUNK,
    b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"{}"),
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil close",
]


@st.composite
def damaged_answer(draw):
    data = bytearray(draw(st.sampled_from(ANSWERS)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 10))] = draw(st.sampled_from(TOKENS) | st.binary(max_size=8))
    return bytes(data)


@fuzz
@given(pieces=(damaged_answer() | st.binary(max_size=200)).flatmap(cut), reset=st.booleans())
def test_any_answer_of_a_worker_is_survived(live, pieces, reset):
    """The worker sends its bytes in pieces and ends the connection; the client gets a response or a close."""

    async def script(_request, connection):
        for piece in pieces:
            await connection.send(piece)
            await asyncio.sleep(0)
        await (connection.reset() if reset else connection.close())

    async def one():
        live.worker.script = script
        async with await Client.connect(live.router.port) as client:
            await client.send(post(headers=[(b"Connection", b"close")]))
            received = await client.read_to_end()
        await assert_nothing_held(live.router)
        live.worker.script = answering(response(b"sound"))
        return received

    received = live.run(one())
    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert b"Traceback" not in received
    assert b" 500 Internal Server Error\r\ncontent-type: application/json" not in received
