import pytest
from tests.control.conftest import eventually

from warmroute.control.readiness import Readiness

CHAT = "/v1/chat/completions"


@pytest.fixture
async def control(start_control):
    return await start_control(manager={"enable-infer-ready-check": True})


async def test_ready_only_after_a_worker_answered_a_request_of_one_token(control, start_engine):
    engine = await start_engine(chat_status=500, models=("b", "a"))
    await control.add(engine)

    async def was_asked_again():
        assert (await control.get("/ready")).status == 503
        return len(engine.posts(CHAT)) > 1

    await eventually(was_asked_again)
    engine.chat_status = 200
    await eventually(lambda: _is_ready(control))
    assert engine.posts(CHAT)[-1] == {
        "model": "a",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
        "stream": False,
    }


async def test_a_passed_check_is_kept(control, engine):
    await control.add(engine)
    await eventually(lambda: _is_ready(control))
    for _ in range(20):
        assert (await control.get("/ready")).status == 200
    assert len(engine.posts(CHAT)) == 1


async def test_a_worker_without_a_list_of_models_is_asked_for_the_contracts_default(control, start_engine):
    engine = await start_engine(models=())
    await control.add(engine)
    await eventually(lambda: _is_ready(control))
    assert engine.posts(CHAT)[0]["model"] == "default"


async def test_the_check_is_done_anew_after_a_recovery(control, engine):
    await control.add(engine)
    await eventually(lambda: _is_ready(control))
    engine.healthy, engine.chat_status = False, 503
    await eventually(lambda: _is_not_ready(control))
    engine.healthy = True

    async def was_asked_again():
        return len(engine.posts(CHAT)) > 1

    await eventually(was_asked_again)
    assert (await control.get("/ready")).status == 503
    engine.chat_status = 200
    await eventually(lambda: _is_ready(control))


async def test_a_worker_that_joins_later_is_checked_and_does_not_take_the_router_out(control, start_engine):
    first, second = await start_engine(), await start_engine(chat_status=503)
    await control.add(first)
    await eventually(lambda: _is_ready(control))
    await control.add(second)

    async def second_was_asked():
        assert (await control.get("/ready")).status == 200
        return bool(second.posts(CHAT))

    await eventually(second_was_asked)


async def test_a_checked_worker_that_is_paused_does_not_vouch_for_one_that_failed(control, start_engine):
    first, second = await start_engine(), await start_engine(chat_status=503)
    await control.add(first, second)
    await eventually(lambda: _is_ready(control))
    await control.post("/register", first.record(is_paused=True))
    assert (await control.get("/ready")).status == 503
    await control.post("/register", first.record())
    assert (await control.get("/ready")).status == 200
    assert len(first.posts(CHAT)) == 1


async def test_without_the_option_no_request_is_sent(start_control, engine):
    control = await start_control()
    await control.add(engine)
    assert (await control.get("/ready")).status == 200
    assert engine.posts(CHAT) == []


async def _is_ready(control):
    return (await control.get("/ready")).status == 200


async def _is_not_ready(control):
    return (await control.get("/ready")).status == 503


async def test_a_check_that_fails_by_a_bug_is_no_pass_and_is_done_again(start_control, engine, make_config, caplog):
    control = await start_control()
    await control.add(engine)
    readiness = Readiness(control.parts.fleet, make_config(manager={"enable-infer-ready-check": True}))
    asked = []

    class Infer:
        async def alone(self, url, models):
            asked.append(url)
            if len(asked) < 3:
                assert not readiness.is_ready()
                raise RuntimeError("a bug")

    readiness._infer = Infer()

    async def is_ready():
        return readiness.is_ready()

    await eventually(is_ready)
    assert len(asked) == 3
    assert caplog.messages.count(f"unexpected error in the infer-ready check of worker {engine.url}") == 1
    await readiness.close()
    assert not readiness.is_ready()
