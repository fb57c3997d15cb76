"""The two error shapes of the control app, and which request gets which.

The FastDeploy contract's endpoints, and the worker life cycle beside them, answer `{"code": N, "msg": ...}`.
Everything else answers like OpenAI: `{"error": {"message", "type", "param", "code"}}`.
"""

from __future__ import annotations

from collections.abc import Collection

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect


class ControlError(Exception):
    """A request to one of the contract's endpoints that cannot be done. Answered as `{"code", "msg"}`."""

    def __init__(self, status: int, msg: str) -> None:
        super().__init__(msg)
        self.status = status
        self.msg = msg


class OpenAIError(Exception):
    """A request to any other endpoint that cannot be done. Answered as OpenAI's error object."""

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = "invalid_request_error" if status < 500 else "server_error"


def install_error_handlers(app: FastAPI, inference_paths: Collection[str]) -> None:
    """Make `app` answer every error in its shape.

    `inference_paths` are served by the gateway for POST: what reaches this app has the wrong method, and is told so.
    """

    async def control_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ControlError)  # noqa: S101
        return control_response(error)

    async def openai_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, OpenAIError)  # noqa: S101
        return openai_response(error)

    async def routing_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        status, headers = error.status_code, dict(error.headers or {})
        if status == 404 and request.method != "POST" and request.scope["path"] in inference_paths:
            status, headers = 405, {"Allow": "POST"}
        return openai_response(_routing_error(request, status, error.detail), headers)

    async def bad_parameter(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        first = error.errors()[0]
        message = f"{first['loc'][-1]}: {first['msg']}"
        return openai_response(OpenAIError(400, message, code="invalid_parameter"))

    async def bug(request: Request, error: Exception) -> Response:
        # The server logs the traceback; the client learns nothing of our insides.
        return openai_response(OpenAIError(500, "Internal server error", code="internal_error"))

    async def client_left(request: Request, error: Exception) -> Response:
        return Response(status_code=499)

    app.add_exception_handler(ControlError, control_error)
    app.add_exception_handler(OpenAIError, openai_error)
    app.add_exception_handler(HTTPException, routing_error)
    app.add_exception_handler(RequestValidationError, bad_parameter)
    app.add_exception_handler(ClientDisconnect, client_left)
    app.add_exception_handler(Exception, bug)


def control_response(error: ControlError, headers: dict[str, str] | None = None) -> JSONResponse:
    """The contract's error object for `error`."""
    return JSONResponse({"code": error.status, "msg": error.msg}, error.status, headers)


def openai_response(error: OpenAIError, headers: dict[str, str] | None = None) -> JSONResponse:
    """OpenAI's error object for `error`."""
    body = {"message": error.message, "type": error.kind, "param": None, "code": error.code}
    return JSONResponse({"error": body}, error.status, headers)


def _routing_error(request: Request, status: int, detail: str) -> OpenAIError:
    where = f"{request.method} {request.scope['path']}"
    match status:
        case 404:
            return OpenAIError(404, f"Unknown request URL: {where}", code="unknown_url")
        case 405:
            return OpenAIError(405, f"Method not allowed: {where}", code="method_not_supported")
        case _:
            return OpenAIError(status, str(detail))
