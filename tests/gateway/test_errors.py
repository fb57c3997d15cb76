"""The table of answers."""

import json

import pytest

from warmroute.gateway import errors
from warmroute.gateway.errors import GatewayError, answer_to
from warmroute.prompts.body import BadRequest
from warmroute.prompts.fields import InvalidJson

TABLE = [
    (errors.MalformedRequest("x"), 400, "invalid_request_error", None, "x"),
    (errors.InvalidBody(InvalidJson("x")), 400, "invalid_request_error", "invalid_json", "Invalid JSON format: x."),
    (errors.InvalidBody(BadRequest("Invalid type", "model")), 400, "invalid_request_error", None, "Invalid type"),
    (errors.NotAuthorised("x"), 401, "invalid_request_error", "invalid_api_key", "x"),
    (errors.KeyExhausted("x", 7), 429, "rate_limit_error", "rate_limit_exceeded", "x"),
    (errors.Overloaded("x", 7), 429, "rate_limit_error", "overloaded", "x"),
    (errors.UnknownModel("m"), 404, "invalid_request_error", "model_not_found", "The model 'm' does not exist"),
    (errors.RequestTimeout("x"), 408, "invalid_request_error", "request_timeout", "x"),
    (errors.BodyTooLarge(5), 413, "invalid_request_error", "request_too_large", "Invalid request body: larger than 5"),
    (errors.TargetTooLong("x"), 414, "invalid_request_error", "uri_too_long", "x"),
    (errors.HeadTooLarge("x"), 431, "invalid_request_error", "request_header_fields_too_large", "x"),
    (errors.NoWorkerAvailable(), 503, "server_error", "service_unavailable", "Failed to select worker"),
    (
        errors.NoPairAvailable("sizes"),
        503,
        "server_error",
        "service_unavailable",
        "No available prefill/decode workers: s",
    ),
    (errors.OutOfResources("x"), 503, "server_error", "service_unavailable", "The router cannot open a connection: x"),
    (errors.ShuttingDown(), 503, "server_error", "service_unavailable", "The router is shutting down"),
    (errors.ConnectFailed("x", "u"), 502, "server_error", "bad_gateway", "Failed to connect to backend service: x"),
    (
        errors.ConnectTimedOut("x", "u"),
        504,
        "server_error",
        "gateway_timeout",
        "Failed to connect to backend service: x",
    ),
    (errors.ConnectionLost("x", "u"), 502, "server_error", "bad_gateway", "Failed to connect to backend service: x"),
    (errors.BadResponse("x", "u"), 502, "server_error", "bad_gateway", "Failed to connect to backend service: x"),
    (errors.RequestDeadline(5), 504, "server_error", "gateway_timeout", "The request took longer than 5 s"),
    *(
        (kind("x", "u"), 504, "server_error", "gateway_timeout", "Failed to connect to backend service: x")
        for kind in (errors.FirstByteTimedOut, errors.WorkerSilent, errors.WorkerFrozen)
    ),
    (errors.StreamUnfinished("u"), 502, "server_error", "bad_gateway", "Failed to connect to backend service: "),
    (errors.InternalError(), 500, "server_error", "internal_error", "Internal server error"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code", "message"), TABLE)
def test_answers(error, status, kind, code, message):
    answer = answer_to(error)
    body = json.loads(answer.body)["error"]
    assert (answer.status, body["type"], body["code"]) == (status, kind, code)
    assert body["message"].startswith(message)
    assert (b"retry-after", b"1") in answer.headers or status != 503
    assert b"\n" not in answer.body


def test_a_connection_that_broke_later_had_not_failed_to_be_made():
    answer = answer_to(errors.ConnectionLost("connection closed", "u", response_seen=True), begun=True)
    assert json.loads(answer.body)["error"]["message"] == "Backend service failed: connection closed"


@pytest.mark.parametrize(
    "kind", [errors.ConnectFailed, errors.ConnectTimedOut, errors.ConnectionLost, errors.BadResponse]
)
def test_the_worker_at_fault_is_named(kind):
    assert answer_to(kind("x", "http://a:1")).headers == ((b"X-Router-Worker-URL", b"http://a:1"),)


def test_who_is_to_come_back_later_is_told_when():
    for kind in (errors.Overloaded, errors.KeyExhausted):
        assert answer_to(kind("x", 7)).headers == ((b"retry-after", b"7"),)


def test_the_field_at_fault_is_named():
    assert json.loads(answer_to(TABLE[2][0]).body)["error"]["param"] == "model"


def test_the_table_is_complete():
    def leaves(kind):
        return {kind} if not kind.__subclasses__() else set().union(*map(leaves, kind.__subclasses__()))

    assert leaves(GatewayError) | {errors.ConnectFailed} == {type(error) for error, *_ in TABLE}
