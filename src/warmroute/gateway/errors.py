"""Everything that can go wrong with a relayed request, and what the client is told of it.

The tree says whose fault it is: RequestError the client's, UpstreamError a worker's, Unavailable nobody's in
particular. Library exceptions are translated where the library is called; above that only these are seen. `answer_to`
is the one place that knows statuses and OpenAI-style bodies. The message texts begin like the FastDeploy router's.
"""

# ruff: noqa: N818 - named after what has happened, not after the class

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from warmroute.prompts.body import BadRequest

RETRY_AFTER_SECONDS = 1
WORKER_URL = b"X-Router-Worker-URL"
_NOT_CONNECTED = "Failed to connect to backend service"
_BROKEN = "Backend service failed"


class GatewayError(Exception):
    """Anything that ends an exchange early."""


class RequestError(GatewayError):
    """The client's fault: the same request would fail again."""


class MalformedRequest(RequestError):
    """Not a request that HTTP/1.x allows, or not one that this gateway takes."""


class TargetTooLong(RequestError):
    """The request target is longer than the gateway reads."""


class HeadTooLarge(RequestError):
    """The header section is larger than the gateway reads, or has too many fields."""


class BodyTooLarge(RequestError):
    """The body is larger than max-body-bytes; `limit` is that, in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"Invalid request body: larger than {limit} bytes")
        self.limit = limit


class RequestTimeout(RequestError):
    """The rest of the request did not come within client-read-timeout."""


class InvalidBody(RequestError):
    """The body is not what an inference endpoint takes; `param` names the field at fault, if one is."""

    def __init__(self, cause: BadRequest) -> None:
        super().__init__(str(cause))
        self.param = cause.param
        self.code = cause.code


class UnknownModel(RequestError):
    """With strict-models: no worker lists the model."""

    def __init__(self, model: str) -> None:
        super().__init__(f"The model {model!r} does not exist")
        self.model = model


class NotAuthorised(RequestError):
    """The request brought no API key, or one that is not valid."""


class KeyExhausted(RequestError):
    """The API key has had what it may for now; `retry_after` is in seconds."""

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Unavailable(GatewayError):
    """The router cannot serve anybody right now; later it may."""


class NoWorkerAvailable(Unavailable):
    """There is no worker to choose from."""

    def __init__(self) -> None:
        super().__init__("Failed to select worker: no worker is available")


class NoPairAvailable(Unavailable):
    """There is no pair of a prefill and a decode worker to choose; `why` tells an operator the reason, if known."""

    def __init__(self, why: str = "") -> None:
        text = "No available prefill/decode workers"
        super().__init__(f"{text}: {why}" if why else text)


class Overloaded(Unavailable):
    """All workers have as many requests as they may, and this one cannot wait, or has waited for too long.

    `retry_after` is in seconds.
    """

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class ShuttingDown(Unavailable):
    """The router is stopping and cannot wait for this request any longer."""

    def __init__(self) -> None:
        super().__init__("The router is shutting down")


class OutOfResources(Unavailable):
    """The system gives the router no further connection, whoever it is for. No worker is to blame."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The router cannot open a connection: {reason}")


class RequestDeadline(GatewayError):
    """The request has taken as long as request-timeout allows. No worker is to blame: it may have been answering."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request took longer than {seconds:g} s")


class UpstreamError(GatewayError):
    """A worker's fault. `worker_url` names it; `response_seen` says whether any byte of a response had come.

    `request_lost`: the worker may have begun with the request, which may be what has ended it. `reason` is its name in
    the metrics, `timed_out` whether it was a deadline.
    """

    request_lost = False
    reason: ClassVar[str] = "lost"
    timed_out: ClassVar[bool] = False

    def __init__(self, message: str, worker_url: str, *, response_seen: bool = False) -> None:
        super().__init__(message)
        self.worker_url = worker_url
        self.response_seen = response_seen


class ConnectFailed(UpstreamError):
    """No connection: refused, unreachable or name not found."""

    reason = "refused"


class ConnectTimedOut(ConnectFailed):
    """No connection within connect-timeout."""

    reason = "connect_timeout"
    timed_out = True


class ConnectionLost(UpstreamError):
    """The connection ended before the response was complete."""

    request_lost = True


class BadResponse(UpstreamError):
    """The worker sent something that is not an HTTP/1.x response."""

    request_lost = True
    reason = "bad_response"


class FirstByteTimedOut(UpstreamError):
    """No byte of a body within first-byte-timeout."""

    request_lost = True
    reason = "first_byte_timeout"
    timed_out = True


class WorkerSilent(UpstreamError):
    """A response has begun, and then nothing came for stream-idle-timeout."""

    request_lost = True
    reason = "silent"
    timed_out = True


class WorkerFrozen(UpstreamError):
    """The worker takes requests and answers none, as the fleet found out."""

    request_lost = True
    reason = "frozen"
    timed_out = True


class StreamUnfinished(UpstreamError):
    """An event stream of chat or completions has ended without `data: [DONE]`."""

    request_lost = True
    reason = "unfinished"

    def __init__(self, worker_url: str) -> None:
        super().__init__("the stream ended without its last event", worker_url, response_seen=True)


class InternalError(GatewayError):
    """A fault of the router itself; it has been logged."""

    def __init__(self) -> None:
        super().__init__("Internal server error")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is told: a status, an OpenAI-style JSON body and header lines of its own."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def answer_to(error: GatewayError, *, begun: bool = False) -> Answer:
    """The answer for each kind of error; `begun` if the client has a part of another one already."""
    text = str(error)
    match error:
        case MalformedRequest():
            return _answer(400, text, "invalid_request_error")
        case InvalidBody(param=param, code=code):
            return _answer(400, text, "invalid_request_error", param=param, code=code)
        case NotAuthorised():
            challenge = ((b"www-authenticate", b"Bearer"),)
            return _answer(401, text, "invalid_request_error", code="invalid_api_key", headers=challenge)
        case UnknownModel():
            return _answer(404, text, "invalid_request_error", param="model", code="model_not_found")
        case RequestTimeout():
            return _answer(408, text, "invalid_request_error", code="request_timeout")
        case BodyTooLarge():
            return _answer(413, text, "invalid_request_error", code="request_too_large")
        case TargetTooLong():
            return _answer(414, text, "invalid_request_error", code="uri_too_long")
        case HeadTooLarge():
            return _answer(431, text, "invalid_request_error", code="request_header_fields_too_large")
        case KeyExhausted(retry_after=seconds):
            headers = ((b"retry-after", b"%d" % seconds),)
            return _answer(429, text, "rate_limit_error", code="rate_limit_exceeded", headers=headers)
        case Overloaded(retry_after=seconds):
            headers = ((b"retry-after", b"%d" % seconds),)
            return _answer(429, text, "rate_limit_error", code="overloaded", headers=headers)
        case Unavailable():
            retry_after = ((b"retry-after", b"%d" % RETRY_AFTER_SECONDS),)
            return _answer(503, text, "server_error", code="service_unavailable", headers=retry_after)
        case RequestDeadline():
            return _answer(504, text, "server_error", code="gateway_timeout")
        case UpstreamError(worker_url=url):
            status, code = (504, "gateway_timeout") if error.timed_out else (502, "bad_gateway")
            message = f"{_BROKEN if begun else _NOT_CONNECTED}: {text}"
            return _answer(status, message, "server_error", code=code, headers=((WORKER_URL, url.encode()),))
        case _:
            return _answer(500, "Internal server error", "server_error", code="internal_error")


def _answer(
    status: int,
    message: str,
    kind: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Answer:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Answer(status, json.dumps({"error": error}).encode(), headers)
