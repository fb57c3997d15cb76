import re

import pytest

from warmroute.control.abort import is_abort_order

PATH = "/v1/abort_requests"


def reply(aborted=(), not_found=()):
    return {"status": "success", "error": None, "result": {"aborted": list(aborted), "not_found": list(not_found)}}


async def test_every_worker_is_told_the_body_as_it_came_and_the_answers_are_merged(control, start_engine):
    first = await start_engine(abort_reply=reply([{"request_id": "a", "output_tokens": 3}], ["b", "c"]))
    second = await start_engine(abort_reply=reply([{"request_id": "b", "output_tokens": 4}], ["a", "c"]))
    await control.add(first, second)
    order = {"req_ids": ["a", "b", "c"], "unknown": 1}
    answer = await control.post(PATH, order)
    assert answer.status == 200
    assert re.fullmatch(r"control-[0-9a-f-]{36}", answer.body.pop("request_id"))
    assert answer.body["result"]["not_found"] == ["c"]
    aborted = sorted(entry["request_id"] for entry in answer.body["result"]["aborted"])
    assert aborted == ["a", "b"]
    assert (answer.body["status"], answer.body["error"]) == ("success", None)
    assert "errors" not in answer.body["result"]
    assert first.posts(PATH) == second.posts(PATH) == [order]


async def test_workers_that_failed_are_named(control, start_engine):
    sound, ill = await start_engine(abort_reply=reply(["a"])), await start_engine(abort_status=404)
    await control.add(sound, ill)
    answer = await control.post(PATH, {"abort_all": True})
    assert (answer.status, answer.body["status"]) == (200, "success")
    assert answer.body["result"] == {
        "aborted": ["a"],
        "not_found": [],
        "errors": [{"server": ill.url, "error": "HTTP 404"}],
    }


async def test_an_order_that_no_worker_took_is_an_error(control, start_engine):
    await control.add(await start_engine(abort_status=500))
    answer = await control.post(PATH, {"abort_all": True})
    assert (answer.status, answer.body["status"], answer.body["error"]) == (502, "error", "no worker took the order")


async def test_without_workers_no_id_is_found(control):
    answer = await control.post(PATH, {"req_ids": ["a"]})
    assert answer.status == 200
    assert answer.body["result"] == {"aborted": [], "not_found": ["a"]}


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"abort_all": False},
        {"abort_all": 1},
        {"abort_all": "true"},
        {"req_ids": []},
        {"req_ids": "a"},
        {"req_ids": [1]},
        {"req_ids": ["a", ""]},
        {"req_ids": {"a": 1}},
        {"req_ids": None, "abort_all": None},
    ],
)
def test_an_order_must_say_what_to_abort(order):
    assert not is_abort_order(order)


async def test_an_empty_order_is_400_in_the_engines_words_and_no_worker_hears_of_it(control, engine):
    await control.add(engine)
    answer = await control.post(PATH, {"req_ids": []})
    assert (answer.status, answer.body) == (400, {"error": "must provide abort_all=true or req_ids"})
    assert engine.posts(PATH) == []


async def test_what_is_no_object_is_400(control):
    for body in (b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000):
        answer = await control.post(PATH, body)
        assert answer.status == 400
        assert answer.body["error"]["message"].startswith("Invalid JSON format: ")
        assert answer.body["error"]["type"] == "invalid_request_error"


async def test_a_body_over_the_limit_is_413(control):
    answer = await control.post(PATH, b'{"req_ids": ["' + b"a" * (1 << 20) + b'"]}')
    assert (answer.status, answer.body["error"]["code"]) == (413, "body_too_large")
