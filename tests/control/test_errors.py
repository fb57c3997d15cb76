import asyncio
import logging

import pytest
from tests.support.builds import needs_source

OPENAI_KEYS = {"message", "type", "param", "code"}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_an_unknown_path_is_404_like_openais(control, method):
    answer = await control.call(method, "/v1/nothing")
    assert answer.status == 404
    assert set(answer.body["error"]) == OPENAI_KEYS
    assert answer.body["error"]["code"] == "unknown_url"
    assert answer.body["error"]["message"] == f"Unknown request URL: {method} /v1/nothing"


async def test_a_wrong_method_is_405_like_openais_and_says_what_is_allowed(control):
    for method, path, allowed in (
        ("POST", "/registered", "GET"),
        ("GET", "/register", "POST"),
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/abort_requests", "POST"),
    ):
        answer = await control.call(method, path)
        assert answer.status == 405, path
        assert set(answer.body["error"]) == OPENAI_KEYS
        assert answer.body["error"]["code"] == "method_not_supported"
        assert answer.headers["allow"] == allowed


async def test_there_are_no_pages_that_the_framework_would_fill_from_other_hosts(control):
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert (await control.get(path)).status == 404


async def test_odd_paths_are_404_and_never_more(control):
    for path in (
        "/%FF",
        "/%00",
        "/..%2f..%2fetc",
        "/" + "a" * 5000,
        "/%F0%9F%94%A5",
        "//",
        "/%",
        "/v1%2Fchat/completions",
    ):
        answer = await control.post(path)
        assert (answer.status, answer.body["error"]["code"]) == (404, "unknown_url"), path


@needs_source
async def test_a_fault_of_ours_is_a_500_that_tells_nothing_of_our_insides(control, monkeypatch, caplog):
    def fail():
        raise RuntimeError("secret")

    monkeypatch.setattr(control.parts.ledger, "audit", fail)
    with caplog.at_level(logging.CRITICAL):
        answer = await control.get("/metrics")
    assert answer.status == 500
    assert answer.body["error"] == {
        "message": "Internal server error",
        "type": "server_error",
        "param": None,
        "code": "internal_error",
    }


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error_of_ours(control, caplog):
    _, writer = await asyncio.open_connection("127.0.0.1", control.port)
    writer.write(b"POST /register HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.05)
    assert (await control.get("/health")).status == 200
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
