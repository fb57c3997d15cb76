"""When a decode worker serves without a prefill worker."""

import pytest
from tests.support.http_client import ask, post
from tests.support.pd import DIALECTS, HANDLE, JSON_BODY, PREFILL_ANSWER, chat, pairs_over
from tests.support.router import eventually
from tests.support.scripted_worker import answering, response

EMBEDDINGS = post("/v1/embeddings", b'{"model":"m","input":"x"}')


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_paths_without_a_handover_go_to_decode_alone_unchanged(dialect):
    async with pairs_over(dialect) as pairs:
        answer = await ask(pairs.router.port, EMBEDDINGS)
        assert (answer.status, answer.body) == (200, JSON_BODY)
        (decode,) = pairs.decode.workers
        assert answer.value(b"x-router-worker-url") == answer.value(b"x-router-decode-url") == decode.url.encode()
        assert answer.values(b"x-router-prefill-url") == []
        assert [request.body for request in pairs.decode.seen] == [b'{"model":"m","input":"x"}']
        assert pairs.prefill.seen == []
        assert pairs.router.metrics.decode_alone == {"other_path": 1}
        assert pairs.statuses() == {("decode", 200): 1}
        # Even without a prefill worker.
        await pairs.prefill.refuse()
        pairs.router.fleet.worker_refused(next(iter(pairs.router.fleet.pairs(None).prefill.candidates)).worker)
        assert (await ask(pairs.router.port, EMBEDDINGS)).status == 200


async def test_what_one_handle_cannot_stand_for_goes_to_decode_alone():
    async with pairs_over("vllm") as pairs:
        assert (await ask(pairs.router.port, chat(n=2))).status == 200
        assert pairs.prefill.seen == []
        assert pairs.router.metrics.decode_alone == {"several_sequences": 1}


async def test_without_a_prefill_worker_vllm_decodes_alone():
    async with pairs_over("vllm", 1, 2) as pairs:
        await pairs.prefill.refuse()
        for count in (1, 2, 3):
            answer = await ask(pairs.router.port, chat())
            assert (answer.status, answer.body) == (200, JSON_BODY)
            assert pairs.router.metrics.decode_alone == {"no_prefill": count}
        assert all(b"kv_transfer_params" not in request.body for request in pairs.decode.seen)
        await pairs.decode.workers[0].stop_listening()
        for connection in tuple(pairs.decode.workers[0].open_connections):
            await connection.close()
        assert {(await ask(pairs.router.port, chat())).status for _ in range(4)} == {200}


async def test_a_prefill_worker_that_answers_is_usable():
    """Its refusal is not evaded: it may be over its limit."""
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then = answering(response(b"busy", b"429 Busy"))
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (429, b"busy")
        assert pairs.decode.seen == []


@pytest.mark.parametrize(("dialect", "option"), [("vllm", "never"), ("fastdeploy", "auto"), ("sglang", "auto")])
async def test_where_decode_may_not_or_cannot_it_is_503(dialect, option):
    async with pairs_over(dialect, pd_decode_alone=option) as pairs:
        await pairs.prefill.refuse()
        assert (await ask(pairs.router.port, chat())).status == 502
        answer = await ask(pairs.router.port, chat())
        assert answer.status == 503
        assert answer.error["message"].startswith("No available prefill/decode workers")
        assert answer.value(b"retry-after") == b"1"
        assert pairs.statuses()["decode", 503] == 1


async def test_prefill_is_left_out_when_decode_holds_nearly_all():
    def of_size(size):
        return chat(messages=[{"role": "user", "content": "x" * size}])

    async with pairs_over("vllm", pd_min_uncached_tokens=500) as pairs:
        for size, prefills, cached in ((20_000, 1, 0), (20_000, 1, 1), (20_800, 1, 2), (30_000, 2, 2)):
            assert (await ask(pairs.router.port, of_size(size))).body == JSON_BODY
            assert len(pairs.prefill.seen) == prefills
            assert pairs.router.metrics.decode_alone["cached"] == cached
        assert [HANDLE in request.body for request in pairs.decode.seen] == [True, False, False, True]


async def test_a_cached_decode_worker_that_is_gone_is_replaced_by_a_pair():
    async with pairs_over("vllm", 1, 2, pd_min_uncached_tokens=1000, decode_policy="cache_aware") as pairs:
        assert (await ask(pairs.router.port, chat())).status == 200
        (holder,) = pairs.decode.seen_by
        await holder.stop_listening()
        for connection in tuple(holder.open_connections):
            await connection.close()
        assert {(await ask(pairs.router.port, chat())).status for _ in range(3)} == {200}


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
async def test_engines_that_cannot_decode_alone_always_get_a_pair(dialect):
    async with pairs_over(dialect, pd_min_uncached_tokens=1_000_000) as pairs:
        assert (await ask(pairs.router.port, chat())).status == 200
        assert len(pairs.prefill.seen) == 1


async def test_a_prefill_worker_without_a_connector_is_counted_and_told_once(caplog):
    async with pairs_over("vllm") as pairs:
        pairs.prefill.then = answering(response(b'{"choices":[]}'))
        for _ in range(3):
            assert (await ask(pairs.router.port, chat())).status == 200
        (prefill,) = pairs.prefill.workers
        assert pairs.router.metrics.recomputed == {f"127.0.0.1:{prefill.port}": 3}
        assert caplog.text.count("hands nothing over") == 1
        pairs.prefill.then = answering(PREFILL_ANSWER)
        await ask(pairs.router.port, chat())
        assert pairs.router.metrics.recomputed.total() == 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_strict_models(dialect):
    async with pairs_over(dialect, strict_models=True) as pairs:
        await eventually(lambda: not pairs.router.fleet.knows_model("decode", "other"), "the models are known", 5)
        answer = await ask(pairs.router.port, chat(model="other"))
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")
        assert (await ask(pairs.router.port, chat())).status == 200
