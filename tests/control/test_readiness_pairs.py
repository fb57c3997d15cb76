"""/ready with prefill and decode workers: pairs, decode workers alone, and the one-token request of both."""

import pytest
from tests.control.conftest import eventually

CHAT = "/v1/chat/completions"
VLLM = "vllm:num_requests_running 0\n"
SGLANG = "sglang:num_queue_reqs 0\n"


@pytest.fixture
def start_pd(start_control):
    async def start(prefill, decode, *, is_checked=False, **scheduler):
        manager = {
            "prefill": [engine.url for engine in prefill],
            "decode": [engine.url for engine in decode],
            "enable-infer-ready-check": is_checked,
        }
        return await start_control(manager=manager, server={"splitwise": True}, scheduler=scheduler)

    return start


async def is_ready(control):
    return (await control.get("/ready")).status == 200


async def becomes_ready(control):
    await eventually(lambda: is_ready(control))


async def becomes_unready(control):
    async def is_not_ready():
        return not await is_ready(control)

    await eventually(is_not_ready)


async def shows_healthy(control, *engines):
    async def all_are():
        shown = (await control.get("/workers")).body["workers"]
        states = {worker["id"]: worker["state"] for worker in shown}
        return all(states.get(engine.id) == "healthy" for engine in engines)

    await eventually(all_are)


async def test_it_takes_both_sides_of_a_pair(start_control, start_engine):
    control = await start_control(server={"splitwise": True})
    prefill, decode = await start_engine(), await start_engine()
    await control.post("/register", prefill.record(role="prefill", tp_size=2))
    assert not await is_ready(control)
    await control.post("/register", decode.record(role="decode", tp_size=4))
    assert not await is_ready(control)
    await control.post("/register", decode.record(role="decode", tp_size=2))
    assert await is_ready(control)


@pytest.mark.parametrize(("page", "option", "stays"), [(VLLM, "auto", True), (VLLM, "never", False)])
async def test_without_prefill_workers_decode_workers_may_do(start_pd, start_engine, page, option, stays):
    prefill, decode = await start_engine(metrics_page=page), await start_engine(metrics_page=page)
    control = await start_pd([prefill], [decode], pd_decode_alone=option)
    await shows_healthy(control, prefill, decode)
    assert await is_ready(control)
    prefill.healthy = False

    async def prefill_is_gone():
        return (await control.get("/registered_number")).body["prefill"] == 0

    await eventually(prefill_is_gone)
    assert await is_ready(control) is stays
    decode.healthy = False
    await becomes_unready(control)


async def test_sglangs_decode_workers_cannot_do_alone(start_pd, start_engine):
    prefill, decode = await start_engine(metrics_page=SGLANG), await start_engine(metrics_page=SGLANG)
    control = await start_pd([prefill], [decode])
    await becomes_ready(control)
    prefill.healthy = False
    await becomes_unready(control)


async def test_both_legs_of_the_check_carry_one_handle(start_pd, start_engine):
    prefill, decode = await start_engine(metrics_page=SGLANG), await start_engine(metrics_page=SGLANG)
    control = await start_pd([prefill], [decode], is_checked=True)
    await becomes_ready(control)
    rooms = [[body["bootstrap_room"] for body in engine.posts(CHAT)] for engine in (prefill, decode)]
    assert sorted(rooms[0]) == sorted(rooms[1])
    body = prefill.posts(CHAT)[0]
    assert (body["model"], body["max_tokens"], body["bootstrap_host"]) == ("m", 1, "127.0.0.1")


async def test_the_check_asks_for_a_model_that_both_list(start_pd, start_engine):
    prefill = await start_engine(metrics_page=VLLM, models=("a", "b"))
    decode = await start_engine(metrics_page=VLLM, models=("b", "c"))
    control = await start_pd([prefill], [decode], is_checked=True, pd_decode_alone="never")
    await becomes_ready(control)
    assert {body["model"] for body in prefill.posts(CHAT) + decode.posts(CHAT)} == {"b"}
    assert prefill.posts(CHAT)[0]["kv_transfer_params"]["do_remote_decode"] is True


@pytest.mark.parametrize("page", [VLLM, SGLANG])
@pytest.mark.parametrize("broken", ["prefill", "decode"])
async def test_a_pair_is_ready_when_both_have_answered(start_pd, start_engine, page, broken):
    engines = {role: await start_engine(metrics_page=page) for role in ("prefill", "decode")}
    engines[broken].chat_status = 500
    control = await start_pd([engines["prefill"]], [engines["decode"]], is_checked=True)

    async def was_asked_again():
        assert not await is_ready(control)
        return len(engines[broken].posts(CHAT)) > 2

    await eventually(was_asked_again)
    engines[broken].chat_status = 200
    await becomes_ready(control)


async def test_a_broken_partner_does_not_keep_a_worker_from_passing(start_pd, start_engine):
    broken = await start_engine(metrics_page=SGLANG, chat_status=500)
    good, decode = [await start_engine(metrics_page=SGLANG) for _ in range(2)]
    control = await start_pd([broken, good], [decode], is_checked=True)
    await becomes_ready(control)
    good.healthy = False
    await becomes_unready(control)


async def test_a_decode_worker_that_may_serve_alone_is_asked_alone(start_control, start_engine):
    decode = await start_engine(metrics_page=VLLM)
    manager = {"decode": [decode.url], "enable-infer-ready-check": True}
    control = await start_control(manager=manager, server={"splitwise": True})
    await becomes_ready(control)
    assert decode.posts(CHAT) == [
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "stream": False}
    ]


async def test_a_worker_without_partner_is_asked_nothing(start_pd, start_engine):
    prefill, decode = await start_engine(metrics_page=SGLANG), await start_engine(metrics_page=SGLANG)
    decode.healthy = False
    control = await start_pd([prefill], [decode], is_checked=True)
    await shows_healthy(control, prefill)
    assert not await is_ready(control)
    decode.healthy = True
    await becomes_ready(control)
    assert all("bootstrap_room" in body for body in prefill.posts(CHAT))


async def test_an_order_to_abort_goes_to_both_roles(start_control, start_engine):
    control = await start_control(server={"splitwise": True})
    reply = {"result": {"aborted": [], "not_found": ["x"]}}
    prefill, decode = await start_engine(abort_reply=reply), await start_engine(abort_reply=reply)
    for engine, role in ((prefill, "prefill"), (decode, "decode")):
        await control.post("/register", engine.record(role=role))
    decode.abort_reply = {"result": {"aborted": ["x"], "not_found": []}}
    answer = await control.post("/v1/abort_requests", {"req_ids": ["x"]})
    assert answer.body["result"] == {"aborted": ["x"], "not_found": []}
    assert len(prefill.posts("/v1/abort_requests")) == len(decode.posts("/v1/abort_requests")) == 1
