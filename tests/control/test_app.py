from tests.control.conftest import running_control

from warmroute.config.cors import response_headers

ORIGIN = "https://app.example"


async def test_two_routers_in_one_process_share_nothing(make_config, start_engine):
    async with running_control(make_config()) as one, running_control(make_config()) as other:
        await one.add(await start_engine())
        one.parts.metrics.prompt_tokens += 8
        one.parts.metrics.matched_tokens += 4
        assert (await one.get("/registered_number")).body["mixed"] == 1
        assert (await other.get("/registered_number")).body["mixed"] == 0
        assert "\nwarmroute_prompt_tokens_total 8.0\n" in (await one.get("/metrics")).body
        assert "\nwarmroute_prompt_tokens_total 0.0\n" in (await other.get("/metrics")).body


async def test_without_allowed_origins_no_browser_of_elsewhere_gets_in(control):
    answer = await control.get("/health", headers={"Origin": ORIGIN})
    assert "access-control-allow-origin" not in answer.headers


async def test_an_allowed_origin_may_read_answers_as_the_shared_rule_says(start_control):
    for origins in ([ORIGIN], ["*"]):
        control = await start_control(server={"cors-allowed-origins": origins})
        answer = await control.get("/health", headers={"Origin": ORIGIN})
        for name, value in response_headers(origins, ORIGIN):
            assert answer.headers[name] == value
        other = await control.get("/health", headers={"Origin": "https://other.example"})
        assert other.headers.get("access-control-allow-origin") == ("*" if origins == ["*"] else None)


async def test_preflights_are_answered_for_inference_too(start_control):
    control = await start_control(server={"cors-allowed-origins": [ORIGIN]})
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    answer = await control.call("OPTIONS", "/v1/chat/completions", headers={"Origin": ORIGIN, **asked})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
    denied = await control.call("OPTIONS", "/health", headers={"Origin": "https://other.example", **asked})
    assert denied.status == 400
