"""A worker that fails before any answer is replaced by an untried one; after that nothing is sent twice."""

import asyncio
import logging
import socket
from contextlib import contextmanager

import pytest
import pytest_asyncio
from tests.support.http_client import CHAT, Client, ask, post
from tests.support.router import config, eventually, free_port, router_over, running
from tests.support.scripted_worker import answering, head, response, then_closing, then_resetting

from warmroute.gateway.failure_log import SEE_ITS_LOG

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'


@pytest_asyncio.fixture(loop_scope="module")
async def broken_and_sound(pair):
    pair[1].script = answering(response(b"sound"))
    return pair


async def _reset(connection):
    await connection.reset()


async def _close(connection):
    await connection.close()


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings"])
async def test_a_worker_that_refuses_is_replaced_at_once(broken_and_sound, path):
    broken, sound = broken_and_sound
    async with router_over(broken, sound, scheduler={"policy": "random"}) as router:
        await broken.stop_listening()
        for _ in range(12):
            answer = await ask(router.port, post(path, BODY))
            assert (answer.status, answer.body) == (200, b"sound")
            assert answer.values(b"x-router-worker-url") == [sound.url.encode()]
    assert [request.body for request in sound.requests] == [BODY] * 12


@pytest.mark.parametrize("failing", [_reset, _close])
async def test_a_worker_that_ends_every_new_connection_is_replaced(broken_and_sound, failing):
    broken, sound = broken_and_sound
    async with router_over(broken, sound, scheduler={"policy": "random"}) as router:
        broken.on_connect = failing
        answers = await asyncio.gather(*(ask(router.port, post(body=BODY)) for _ in range(12)))
        assert {answer.body for answer in answers} == {b"sound"}


@pytest.mark.parametrize("failing", [then_resetting(), then_closing(b"")])
async def test_a_reused_connection_that_died_is_no_failure(worker, router, failing):
    """The worker answers on a new connection; the client notices nothing."""
    good = answering(response(b"good"))

    async def script(request, connection):
        await (failing if request.number_on_connection else good)(request, connection)

    worker.script = script
    for _ in range(4):
        answer = await ask(router.port, post(body=BODY))
        assert (answer.status, answer.body) == (200, b"good")


async def test_a_reused_connection_that_died_without_a_new_one_goes_elsewhere(broken_and_sound):
    broken, sound = broken_and_sound
    broken.script = answering(response(b"first"))
    async with router_over(broken, sound, scheduler={"policy": "round_robin"}) as router:
        assert {(await ask(router.port, post())).body for _ in range(2)} == {b"first", b"sound"}
        await broken.stop_listening()
        broken.script = then_resetting()
        answers = [await ask(router.port, post()) for _ in range(4)]
        assert {answer.body for answer in answers} == {b"sound"}


async def test_when_none_is_left_it_is_502(pair):
    broken, other = pair
    async with router_over(broken, other) as router:
        broken.on_connect = other.on_connect = _reset
        answer = await ask(router.port, post())
        assert answer.status == 502
        assert answer.error["message"].startswith("Failed to connect to backend service")
        assert answer.error["type"] == "server_error"
        assert answer.value(b"X-Router-Worker-URL").decode() in (broken.url, other.url)
    assert len(broken.requests) + len(other.requests) == 0


async def test_all_refusing_is_502_then_503_and_back_again(lone_worker):
    """A refusal takes the lone_worker out until a probe passes; then it serves again."""
    async with router_over(lone_worker, health_check_interval_secs=0.1) as router:
        await lone_worker.stop_listening()
        for connection in tuple(lone_worker.open_connections):
            await connection.close()
        answer = await ask(router.port, post())
        assert answer.status in (502, 503)
        assert answer.error
        await lone_worker.listen()
        async with asyncio.timeout(5):
            while (await ask(router.port, post())).status != 200:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "partial",
    [
        b"HTTP/1.1 200 OK\r\nContent-",
        head(b"200 OK", [(b"Content-Length", b"10")]),
        head(b"200 OK", [(b"Content-Length", b"10")]) + b"12345",
    ],
    ids=["inside the head", "after the head", "inside the body"],
)
async def test_after_the_first_byte_of_a_body_nothing_is_sent_twice(pair, partial):
    broken, sound = pair
    async with router_over(broken, sound, scheduler={"policy": "round_robin"}) as router:
        broken.script = then_resetting(partial)
        sound.script = answering(response(b"sound"))
        answers = []
        for _ in range(2):
            async with await Client.connect(router.port) as client:
                await client.send(post(headers=[(b"Connection", b"close")]))
                answers.append((await client.read_to_end()).rpartition(b"\r\n\r\n")[2])
    if partial.endswith(b"12345"):
        assert sorted(answers) == [b"12345", b"sound"]
        assert len(broken.requests) == len(sound.requests) == 1
    else:
        assert answers == [b"sound", b"sound"]


@pytest.mark.parametrize(
    "garbage", [b"SSH-2.0-OpenSSH_9\r\n", b"\x16\x03\x01\x02", b"HTTP/9.9 xyz\r\n\r\n", b"\r\n" * 5]
)
async def test_what_is_no_http_is_502(router, worker, garbage):
    worker.script = then_closing(garbage)
    answer = await ask(router.port, post())
    assert answer.status == 502
    assert answer.error["message"].startswith("Failed to connect to backend service")


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found", b"422 Unprocessable", b"501 Not Implemented"])
async def test_what_is_wrong_with_a_request_is_wrong_everywhere(pair, status):
    for worker in pair:
        worker.script = answering(response(b"engine says no", status))
    async with router_over(*pair) as router:
        answer = await ask(router.port, post())
        assert (answer.status, answer.body) == (int(status[:3]), b"engine says no")
    assert sum(len(worker.requests) for worker in pair) == 1


async def test_without_a_worker_it_is_503_with_retry_after():
    async with running(config()) as router:
        answer = await ask(router.port, post())
        assert answer.status == 503
        assert int(answer.value(b"retry-after")) >= 1
        assert answer.error["message"].startswith("Failed to select worker")


async def test_with_only_a_dead_worker_it_is_503():
    async with running(config(f"http://127.0.0.1:{free_port()}"), workers=0) as router:
        answer = await ask(router.port, post())
        assert answer.status == 503
        assert answer.value(b"retry-after")


async def test_bytes_after_an_answer_are_never_the_next_answer(router, worker):
    """A worker out of step would give one client the answer of another: its connection is not used again."""
    worker.script = answering(response(b"asked for") + response(b"stray"))
    for _ in range(3):
        assert (await ask(router.port, post())).body == b"asked for"


async def test_bytes_on_an_idle_connection_are_never_the_next_answer(router, worker):
    stray = []

    async def script(_request, connection):
        await connection.send(response(b"asked for"))
        stray.append(asyncio.create_task(later(connection)))

    async def later(connection):
        await asyncio.sleep(0.01)
        await connection.send(response(b"stray"))

    worker.script = script
    for _ in range(3):
        assert (await ask(router.port, post())).body == b"asked for"
        await asyncio.sleep(0.03)
    await asyncio.gather(*stray)


async def test_an_answer_before_the_whole_request_is_an_answer(lone_worker):
    """An engine may refuse a large body without reading it."""
    async with router_over(lone_worker) as router:

        async def answer_early(connection):
            await connection.reader.readuntil(b"\r\n\r\n")
            await connection.send(response(b"too large", b"413 Content Too Large", [(b"Connection", b"close")]))
            await asyncio.sleep(0.1)
            await connection.close()

        lone_worker.on_connect = answer_early
        for connection in tuple(lone_worker.open_connections):
            await connection.close()
        body = b'{"model":"m","prompt":"%b"}' % (b"x" * 20_000_000)
        answer = await ask(router.port, post("/v1/completions", body))
        assert (answer.status, answer.body) == (413, b"too large")


async def test_a_client_that_leaves_during_a_second_attempt_is_noticed(broken_and_sound):
    """The first worker has failed, the connection to the second is still being opened."""
    broken, silent = broken_and_sound
    async with router_over(broken, silent, scheduler={"policy": "random"}) as router:
        broken.on_connect = _reset
        await silent.stop_listening()
        for connection in (*broken.open_connections, *silent.open_connections):
            await connection.close()
        with unanswering_port(silent.port):
            for _ in range(6):
                async with await Client.connect(router.port) as client:
                    await client.send(post())
                    await eventually(lambda: router.ledger.open_leases == 1, "an attempt is under way")
                    await asyncio.sleep(0.02)
                    client.abort()
                    await eventually(lambda: router.ledger.open_leases == 0, "the lease is back", 0.5)


@contextmanager
def unanswering_port(port):
    """A port whose queue of connections is full: the kernel answers no more of them."""
    fillers = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        try:
            for _ in range(4):
                fillers.append(filler := socket.socket())
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            yield
        finally:
            for filler in fillers:
                filler.close()


@pytest.mark.parametrize("failing", [_reset, _close])
async def test_a_worker_that_ends_connections_at_once_is_502_and_nothing_worse(lone_worker, failing):
    """The end may come before the router has looked at its new connection."""
    async with router_over(lone_worker) as router:
        lone_worker.on_connect = failing
        for connection in tuple(lone_worker.open_connections):
            await connection.close()
        for _ in range(10):
            answers = await asyncio.gather(*(ask(router.port, post()) for _ in range(20)))
            assert {answer.status for answer in answers} <= {502, 503}


async def test_failed_requests_are_told_with_worker_and_reason_and_without_their_text(broken_and_sound, caplog):
    broken, sound = broken_and_sound
    caplog.set_level(logging.INFO)
    broken.script = then_closing(b"")
    async with router_over(broken, sound, scheduler={"policy": "round_robin"}) as router:
        request = post(body=b'{"prompt":"a secret"}', headers=[(b"x-request-id", b"mine")])
        answers = [await ask(router.port, request) for _ in range(4)]
    assert {answer.status for answer in answers} == {200}
    first, *_more = [record for record in caplog.records if record.name.endswith("failure_log")]
    assert (first.levelname, first.getMessage()) == (
        "WARNING",
        f"request mine failed: worker {broken.url}: connection closed before the response was complete{SEE_ITS_LOG}",
    )
    assert "secret" not in caplog.text


async def test_a_request_for_which_there_is_no_worker_is_told(lone_worker, caplog):
    async with router_over(lone_worker) as router:
        router.fleet.drain(lone_worker.url)
        assert (await ask(router.port, post(headers=[(b"x-request-id", b"mine")]))).status == 503
    assert "request mine failed: Failed to select worker: no worker is available" in caplog.text
