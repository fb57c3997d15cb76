"""Answers on their way to the client: edited where a dialect asks for it, byte for byte everywhere else."""

import asyncio
import json

import pytest
from tests.support.http_client import Client, ask, post
from tests.support.pd import DIALECTS, EVENTS, HANDLE, JSON_BODY, PREFILL_ANSWER, Waiting, chat, good_answer, pairs_over
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

JSON_TYPE = (b"Content-Type", b"application/json")
USAGE = b'"usage":{"prompt_tokens":100,"total_tokens":101}'
PREFILL_USAGE = b'"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":64}}'
PREFILL_CACHED = response(b'{"kv_transfer_params":%b,%b}' % (HANDLE, PREFILL_USAGE))
TOLD = b'"usage":{"prompt_tokens":100,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":64}}'


@pytest.mark.parametrize(
    "framing",
    ["length", "chunked", "until close"],
)
async def test_cached_tokens_are_prefills_view_in_a_whole_answer(framing):
    body = b'{"big":123456789012345678901234567890,%b}' % USAGE
    answers = {
        "length": answering(head(b"200 OK", [(b"CONTENT-length", b"%d" % len(body)), JSON_TYPE]) + body),
        "chunked": answering(
            head(b"200 OK", [JSON_TYPE, (b"Transfer-Encoding", b"chunked")])
            + chunk(body[:9])
            + chunk(body[9:])
            + LAST_CHUNK
        ),
        "until close": then_closing(head(b"200 OK", [JSON_TYPE]) + body),
    }
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_CACHED), answers[framing]
        for _ in range(2):
            answer = await ask(pairs.router.port, chat())
            assert answer.body == body.replace(USAGE, TOLD)
            if framing == "length":
                assert answer.raw_head.count(b"CONTENT-length: %d\r\n" % len(answer.body)) == 1


async def test_cached_tokens_are_prefills_view_in_a_stream_however_it_is_cut():
    usage = b'data: {"choices":[],%b}\n\n' % USAGE
    stream = EVENTS[0] + usage + b"data: [DONE]\n\n"
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then = answering(PREFILL_CACHED)
        pairs.decode.then = answering(
            SSE_HEAD + b"".join(chunk(stream[at : at + 7]) for at in range(0, len(stream), 7)) + LAST_CHUNK
        )
        assert (await ask(pairs.router.port, chat(stream=True))).body == stream.replace(USAGE, TOLD)


async def test_a_stream_of_declared_length_is_framed_anew_for_its_edit():
    stream = b'data: {"choices":[],%b}\n\n' % USAGE + DONE
    sse = [(b"Content-Type", b"text/event-stream"), (b"Content-Length", b"%d" % len(stream))]
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then = answering(PREFILL_CACHED)
        pairs.decode.then = answering(head(b"200 OK", sse) + stream)
        answer = await ask(pairs.router.port, chat(stream=True))
        assert answer.body == stream.replace(USAGE, TOLD)
        assert answer.values(b"content-length") == []


@pytest.mark.parametrize("body", [b"\x1f\x8b%b" % USAGE, b'{"usage":null}', b"not json", b""])
async def test_what_cannot_be_edited_passes_as_it_is(body):
    coding = [(b"Content-Encoding", b"gzip")] if body.startswith(b"\x1f") else []
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then = answering(PREFILL_CACHED)
        pairs.decode.then = answering(response(body, headers=[JSON_TYPE, *coding]))
        assert (await ask(pairs.router.port, chat())).body == body


async def test_a_body_too_long_to_be_held_passes_as_it_is():
    body = b'{%b,"x":"%b"}' % (USAGE, b"y" * 5_000_000)
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_CACHED), answering(response(body))
        assert (await ask(pairs.router.port, chat())).body == body


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("size", [100, 6_000_000])
async def test_an_error_of_any_size_is_passed_on_whole(dialect, size):
    body = b"e" * size
    async with pairs_over(dialect) as pairs:
        pairs.decode.then = answering(response(body, b"500 Oops"))
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (500, body)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_prefill_answer_of_any_size_is_read_to_its_end(dialect):
    async with pairs_over(dialect) as pairs:
        pairs.prefill.then = answering(response(b'{"kv_transfer_params":%b,"x":"%b"}' % (HANDLE, b"y" * 6_000_000)))
        assert (await ask(pairs.router.port, chat())).body == JSON_BODY
        recomputes = pairs.router.metrics.recomputed.total()
        assert recomputes == (1 if dialect == "vllm" else 0)


async def test_what_has_to_be_read_is_not_asked_for_compressed():
    async with pairs_over("vllm") as pairs:
        request = chat().replace(b"Host: router\r\n", b"Host: router\r\naccept-ENCODING: gzip\r\nX-Kept: 1\r\n")
        await ask(pairs.router.port, request)
        (prefill,), (decode,) = pairs.prefill.seen, pairs.decode.seen
        assert (prefill.values(b"accept-encoding"), decode.values(b"accept-encoding")) == ([], [b"gzip"])
        assert prefill.values(b"x-kept") == decode.values(b"x-kept") == [b"1"]
        assert prefill.values(b"x-request-id") == decode.values(b"x-request-id")


class Logprobs:
    """A native request to SGLang with log probabilities of the prompt, which the prefill worker alone has."""

    REQUEST = post("/v1/responses", b'{"text":"hello","return_logprob":true}')
    PREFILL = response(b'{"meta_info":{"input_token_logprobs":[[-1,1],[-2,2]]}}')
    DECODE = b'{"text":"x","meta_info":{"input_token_logprobs":[[-3,3]]}}'
    MERGED = b'{"text":"x","meta_info":{"input_token_logprobs":[[-1,1],[-2,2],[-3,3]]}}'


@pytest.mark.parametrize("prefill_first", [True, False])
async def test_logprobs_are_merged_whichever_leg_is_over_first(prefill_first):
    first, other = asyncio.Event(), asyncio.Event()
    first.set()
    gates = (first, other) if prefill_first else (other, first)

    def gated(gate, then, data):
        async def script(_request, connection):
            await gate.wait()
            await connection.send(data)
            then.set()

        return script

    async with pairs_over("sglang") as pairs:
        pairs.prefill.then = gated(gates[0], gates[1], Logprobs.PREFILL)
        pairs.decode.then = gated(gates[1], gates[0], response(Logprobs.DECODE))
        assert (await ask(pairs.router.port, Logprobs.REQUEST)).body == Logprobs.MERGED


async def test_a_decode_answer_that_waits_for_prefill_is_not_read_into_memory():
    sent = 0
    decode_waits = asyncio.Event()

    async def decode(_request, connection):
        nonlocal sent
        await connection.send(SSE_HEAD)
        for _ in range(200):
            await connection.send(chunk(b"data: %b\n\n" % (b"x" * 100_000)))
            sent += 1
        await connection.send(chunk(DONE) + LAST_CHUNK)

    async def prefill(_request, connection):
        await decode_waits.wait()
        await connection.send(Logprobs.PREFILL)

    async with pairs_over("sglang") as pairs:
        pairs.prefill.then, pairs.decode.then = prefill, decode
        async with await Client.connect(pairs.router.port) as client:
            await client.send(post("/v1/responses", b'{"text":"hello","return_logprob":true,"stream":true}'))
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.2)
            assert 0 < sent < 150
            decode_waits.set()
            answer = await client.read_response()
            assert len(answer.body) == 200 * 100_008 + len(DONE)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_slow_client_makes_decode_wait(dialect):
    total, sent = 500, 0

    async def decode(_request, connection):
        nonlocal sent
        await connection.send(SSE_HEAD)
        for _ in range(total):
            await connection.send(chunk(b"data: %b\n\n" % (b"x" * 100_000)))
            sent += 1
        await connection.send(chunk(DONE) + LAST_CHUNK)

    async with pairs_over(dialect) as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_CACHED), decode
        async with await Client.connect(pairs.router.port, receive_buffer=65536) as client:
            await client.send(chat(stream=True))
            await client.read_head()
            client.writer.transport.pause_reading()
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.2)
            assert 0 < sent < total - 100
            client.writer.transport.resume_reading()
            received = 0
            while part := await client.read_chunk():
                received += len(part)
            assert received == total * 100_008 + len(DONE)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_chunks_are_forwarded_as_they_come(dialect):
    go_on = asyncio.Event()

    async def decode(_request, connection):
        await connection.send(SSE_HEAD)
        for event in EVENTS:
            go_on.clear()
            await connection.send(chunk(event))
            await go_on.wait()
        await connection.send(LAST_CHUNK)

    async with pairs_over(dialect) as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_CACHED), decode
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat(stream=True))
            await client.read_head()
            for event in EVENTS:
                assert await client.read_chunk() == event
                go_on.set()
            assert await client.read_chunk() == b""


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
async def test_prefills_load_is_given_back_at_its_first_byte_and_its_lease_at_its_end(dialect):
    begin, end = asyncio.Event(), asyncio.Event()

    async def prefill(_request, connection):
        await begin.wait()
        await connection.send(SSE_HEAD + chunk(b"data: 1\n\n"))
        await end.wait()
        await connection.send(LAST_CHUNK)

    async with pairs_over(dialect) as pairs:
        pairs.prefill.then, pairs.decode.then = prefill, Waiting()
        ledger = pairs.router.ledger
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat())
            await eventually(lambda: ledger.open_leases == 2, "two leases are held")
            (load,) = [worker.load for worker in ledger.workers() if worker.role == "prefill"]
            assert load.pending_prefill_tokens > 90
            begin.set()
            await eventually(lambda: load.pending_prefill_tokens == 0, "the prefill load is back")
            assert (ledger.open_leases, load.running_requests) == (2, 1)
            end.set()
            await eventually(lambda: ledger.open_leases == 1, "the lease of prefill is back")
            assert load.running_requests == 0


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
async def test_a_prefill_leg_may_outlive_the_answer(dialect):
    """It is neither cut nor waited for, and the client's next request is answered meanwhile."""
    end = asyncio.Event()

    async def prefill(_request, connection):
        await end.wait()
        await connection.send(PREFILL_ANSWER)

    async with pairs_over(dialect) as pairs:
        pairs.prefill.first = [prefill]
        async with await Client.connect(pairs.router.port) as client:
            assert (await client.ask(chat())).body == JSON_BODY
            assert pairs.router.ledger.open_leases == 1
            assert (await client.ask(chat())).body == JSON_BODY
            assert pairs.router.ledger.open_leases == 1
            end.set()
            await eventually(lambda: pairs.router.ledger.open_leases == 0, "the lease of prefill is back")
        assert pairs.statuses() == {("prefill", 200): 2, ("decode", 200): 2}


@pytest.mark.parametrize("how", ["hangs", "fails"])
async def test_a_prefill_leg_that_outlives_the_answer_for_too_long(monkeypatch, how):
    monkeypatch.setattr("warmroute.gateway.pd.prefill_leg.LINGER_SECONDS", 0.1)
    hanging = Waiting()
    async with pairs_over("sglang") as pairs:
        pairs.prefill.first = [hanging if how == "hangs" else then_resetting(b"HTTP/1.1 2")]
        assert (await ask(pairs.router.port, chat())).body == JSON_BODY
        if how == "hangs":
            await hanging.closed_at()
        await eventually(lambda: pairs.router.ledger.open_leases == 0, "the lease of prefill is back")


async def test_the_router_stops_without_waiting_for_a_prefill_leg():
    hanging = Waiting()
    async with pairs_over("sglang") as pairs:
        pairs.prefill.first = [hanging]
        assert (await ask(pairs.router.port, chat())).body == JSON_BODY
        assert pairs.router.ledger.open_leases == 1
        await pairs.router.gateway.close()
        await hanging.closed_at()
        assert pairs.router.ledger.open_leases == 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_mixture_of_streams_and_others_leaves_nothing_behind(dialect):
    async def decode(request, connection):
        await good_answer(b'"stream": true' in request.body)(request, connection)

    async with pairs_over(dialect, 3, 3, prefill_policy="cache_aware", decode_policy="request_num") as pairs:
        pairs.decode.then = decode
        gate = asyncio.Semaphore(16)

        async def one(number):
            async with gate:
                answer = await ask(pairs.router.port, chat(number % 2 == 0, user=str(number)))
            return answer.status, answer.body

        answers = await asyncio.gather(*map(one, range(200)))
        assert answers[1::2] == [(200, JSON_BODY)] * 100
        assert answers[0::2] == [(200, b"".join(EVENTS))] * 100
        assert (len(pairs.prefill.seen), len(pairs.decode.seen)) == (200, 200)
        if dialect != "vllm":
            key = "bootstrap_room" if dialect == "sglang" else "request_id"
            handles = [{json.dumps(body[key]) for body in side.bodies} for side in (pairs.prefill, pairs.decode)]
            assert handles[0] == handles[1]
            assert len(handles[0]) == 200


async def test_http_1_0_clients():
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then, pairs.decode.then = answering(PREFILL_CACHED), streaming(EVENTS)
        async with await Client.connect(pairs.router.port) as client:
            await client.send(chat(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert (await client.read_to_end()).endswith(b"".join(EVENTS))


async def test_log_probabilities_of_the_prompt_are_merged_on_sglangs_native_path():
    """They exist on the prefill engine only, so the decode engine's answer waits for that of the prefill engine."""
    ask_for_them = b'{"text":"hello there","return_logprob":true,"sampling_params":{"max_new_tokens":1}}'
    of_prompt = b'{"text":"","meta_info":{"input_token_logprobs":[[null,1,null],[-0.5,2,null]]}}'
    of_answer = b'{"text":"x","meta_info":{"big":12345678901234567890,"input_token_logprobs":[[-0.25,3,null]]}}'
    async with pairs_over("sglang") as pairs:
        pairs.prefill.then = answering(response(of_prompt))
        pairs.decode.then = answering(response(of_answer))
        answer = await ask(pairs.router.port, post("/generate", ask_for_them))
        merged = json.loads(answer.body)["meta_info"]
        assert merged["input_token_logprobs"] == [[None, 1, None], [-0.5, 2, None], [-0.25, 3, None]]
        assert b'"big":12345678901234567890' in answer.body
        rooms = {json.loads(side.seen[0].body)["bootstrap_room"] for side in (pairs.prefill, pairs.decode)}
        assert len(rooms) == 1
