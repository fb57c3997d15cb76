"""vLLM answers 200 and an error event when it could not get the KV cache: no answer, as long as nothing was said."""

import asyncio

import pytest
from tests.support.http_client import Client, ask
from tests.support.pd import EVENTS, HANDLE, STREAM_BODY, Waiting, chat, good_answer, pairs_over
from tests.support.router import eventually
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, answering, chunk, response, streaming, then_closing

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
ERROR = b'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "code": %d}}\n\n'
DONE = b"data: [DONE]\n\n"
FAILED = [ROLE, ERROR % 500, DONE]
CHAT = chat(stream=True)


def after(action, script=streaming(FAILED)):  # noqa: B008 - a script holds no state
    """Fails as the script does, but not before the action."""

    async def fail(request, connection):
        await action()
        await script(request, connection)

    return fail


def killing(pairs):
    """The prefill worker that was asked last is gone."""

    async def kill():
        gone = pairs.prefill.seen_by[-1]
        await gone.stop_listening()
        for one in tuple(gone.open_connections):
            await one.close()

    return kill


def cut(size: int) -> bytes:
    stream = b"".join(FAILED)
    return SSE_HEAD + b"".join(chunk(stream[at : at + size]) for at in range(0, len(stream), size)) + LAST_CHUNK


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_with_its_prefill_worker_gone_another_prefill_worker_serves(size):
    async with pairs_over("vllm", 2, 1) as pairs:
        pairs.decode.then = good_answer(stream=True)
        pairs.decode.first = [after(killing(pairs), answering(cut(size)))]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, STREAM_BODY)
        first, second = pairs.prefill.seen_by
        assert first is not second
        assert answer.value(b"x-router-prefill-url") == second.url.encode()
        assert [HANDLE in request.body for request in pairs.decode.seen] == [True, True]
        assert pairs.statuses()["decode", 200] == 1


async def test_with_the_only_prefill_worker_gone_decode_serves_alone():
    async with pairs_over("vllm") as pairs:
        pairs.decode.then = good_answer(stream=True)
        pairs.decode.first = [after(pairs.prefill.refuse)]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, STREAM_BODY)
        assert [HANDLE in request.body for request in pairs.decode.seen] == [True, False]
        assert pairs.router.metrics.decode_alone == {"no_prefill": 1}


async def test_a_prefill_worker_that_takes_connections_but_is_not_well_counts_as_gone():
    """A process that is being killed, or whose engine died behind its server, still does."""
    async with pairs_over("vllm") as pairs:
        (prefill,) = pairs.prefill.workers

        async def fall_ill():
            prefill.is_well = False

        pairs.decode.then = good_answer(stream=True)
        pairs.decode.first = [after(fall_ill)]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, STREAM_BODY)
        assert [HANDLE in request.body for request in pairs.decode.seen] == [True, False]
        assert pairs.router.metrics.decode_alone == {"no_prefill": 1}


async def test_with_its_prefill_worker_there_another_decode_worker_serves(caplog):
    async with pairs_over("vllm", 1, 2) as pairs:
        pairs.decode.then = good_answer(stream=True)
        pairs.decode.first = [streaming(FAILED)]
        assert (await ask(pairs.router.port, CHAT)).body == STREAM_BODY
        first, second = pairs.decode.seen_by
        assert first is not second
        assert f"{first.url}: it answered 500 in an event stream" in caplog.text


@pytest.mark.parametrize("decodes", [1, 2])
async def test_with_nobody_left_the_client_gets_the_last_stream_as_it_is(decodes):
    streams = [[ROLE, b": %d\n\n" % number, *FAILED[1:]] for number in range(decodes)]
    async with pairs_over("vllm", 2, decodes) as pairs:
        pairs.decode.first = [streaming(stream) for stream in streams]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, b"".join(streams[-1]))
        assert answer.value(b"content-type") == b"text/event-stream"
        assert len(pairs.decode.seen) == decodes
        assert (await ask(pairs.router.port, chat())).status == 200


async def test_nor_can_decode_serve_alone_any_more():
    async with pairs_over("vllm") as pairs:

        async def all_gone():
            await pairs.prefill.refuse()
            await pairs.decode.workers[0].stop_listening()

        pairs.decode.first = [after(all_gone, then_closing(SSE_HEAD + b"".join(map(chunk, FAILED)) + LAST_CHUNK))]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, b"".join(FAILED))


@pytest.mark.parametrize("code", [400, 404, 501])
async def test_an_error_of_the_request_is_the_clients(code):
    events = [ROLE, ERROR % code, DONE]
    async with pairs_over("vllm", 2, 2) as pairs:
        pairs.decode.first = [streaming(events)]
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, b"".join(events))
        assert len(pairs.decode.seen) == 1


async def test_after_the_first_content_an_error_is_the_clients():
    events = [ROLE, EVENTS[0], *FAILED[1:]]
    async with pairs_over("vllm", 2, 2) as pairs:
        pairs.decode.then = streaming(events)
        answer = await ask(pairs.router.port, CHAT)
        assert (answer.status, answer.body) == (200, b"".join(events))
        assert len(pairs.decode.seen) == 1


@pytest.mark.parametrize("usage", [b"", b'"usage":{"prompt_tokens":9}'])
async def test_what_was_held_goes_on_with_the_first_content_unchanged(usage):
    """With and without an edit of what follows, which the prefill worker's usage asks for."""
    events = [b": ping\n\n", ROLE, *EVENTS]
    go_on = asyncio.Event()

    async def decode(_request, connection):
        await connection.send(SSE_HEAD + b"".join(map(chunk, events[:3])))
        await go_on.wait()
        await connection.send(b"".join(map(chunk, events[3:])) + LAST_CHUNK)

    async with pairs_over("vllm") as pairs:
        if usage:
            pairs.prefill.then = answering(response(b'{%b,"kv_transfer_params":%b}' % (usage, HANDLE)))
        pairs.decode.first = [decode]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(CHAT)
            assert (await client.read_head()).status == 200
            body = b""
            while len(body) < len(b"".join(events[:3])):
                body += await client.read_chunk()
            assert body == b"".join(events[:3])
            go_on.set()
            while part := await client.read_chunk():
                body += part
        assert body == b"".join(events)


async def test_the_usage_of_a_stream_that_was_held_is_edited():
    told = b'"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}}'
    events = [ROLE, EVENTS[0], b'data: {"choices":[],%b}\n\n' % (told % 1), DONE]
    async with pairs_over("vllm", 2, 2) as pairs:
        pairs.prefill.then = answering(response(b'{%b,"kv_transfer_params":%b}' % (told % 4, HANDLE)))
        pairs.decode.first, pairs.decode.then = [streaming(FAILED)], streaming(events)
        answer = await ask(pairs.router.port, CHAT)
        assert answer.body == b"".join(events).replace(told % 1, told % 4)


async def test_a_stream_that_breaks_off_before_it_says_anything_is_no_answer():
    async with pairs_over("vllm", 1, 2) as pairs:
        pairs.decode.then = good_answer(stream=True)
        pairs.decode.first = [then_closing(SSE_HEAD + chunk(ROLE))]
        assert (await ask(pairs.router.port, CHAT)).body == STREAM_BODY


@pytest.mark.parametrize("held", [[ROLE], FAILED[:2]])
async def test_a_client_that_leaves_ends_what_is_held(held):
    async with pairs_over("vllm") as pairs:
        waiting = Waiting(SSE_HEAD + b"".join(map(chunk, held)))
        pairs.decode.first = [waiting]
        async with await Client.connect(pairs.router.port) as client:
            await client.send(CHAT)
            await waiting.started.wait()
            client.abort()
            await waiting.closed_at()
        await eventually(lambda: pairs.statuses()["decode", 499] == 1, "it is counted")


@pytest.mark.parametrize(("held", "size"), [([ROLE], 1024 * 1024), (FAILED[:2], 6 * 1024 * 1024)])
async def test_what_is_too_long_to_be_held_is_passed_on(held, size):
    stream = b"".join(held) + b": more\n\n" * (size // 8) + ERROR % 500 + DONE
    async with pairs_over("vllm", 1, 2) as pairs:
        pairs.decode.first = [answering(SSE_HEAD + chunk(stream) + LAST_CHUNK)]
        assert (await ask(pairs.router.port, CHAT)).body == stream
        assert len(pairs.decode.seen) == 1
