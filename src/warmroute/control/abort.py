"""POST /v1/abort_requests: every worker is told, and their answers become one.

The form is the engine's own control reply: `request_id`, `status`, `error`, `result`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from warmroute.control.bodies import BadJsonError, BodyTooLargeError, parse_object, read_body
from warmroute.control.errors import OpenAIError
from warmroute.control.merge import merge_abort_replies
from warmroute.control.parts import ControlParts


def abort_routes(parts: ControlParts) -> APIRouter:
    """The fan-out and its merged answer; 502 when there are workers and none of them took the order."""
    routes = APIRouter()

    @routes.post("/v1/abort_requests")
    async def abort_requests(request: Request) -> Response:
        try:
            body = await read_body(request)
            order = parse_object(body)
        except BodyTooLargeError as error:
            raise OpenAIError(413, str(error), code="body_too_large") from error
        except BadJsonError as error:
            raise OpenAIError(400, f"Invalid JSON format: {error}", code="invalid_json") from error
        if not is_abort_order(order):
            return JSONResponse({"error": "must provide abort_all=true or req_ids"}, 400)
        answers = await parts.fleet.abort(body)
        taken = {answer.member.url: answer.body for answer in answers if answer.status == 200}
        failures = {
            answer.member.url: answer.error or f"HTTP {answer.status}" for answer in answers if answer.status != 200
        }
        none_took_it = bool(failures) and not taken
        return JSONResponse(
            {
                "request_id": f"control-{uuid.uuid4()}",
                "status": "error" if none_took_it else "success",
                "error": "no worker took the order" if none_took_it else None,
                "result": merge_abort_replies(_ids(order), taken, failures),
            },
            502 if none_took_it else 200,
        )

    return routes


def is_abort_order(order: Mapping[str, Any]) -> bool:
    """Whether `order` says what to abort: `abort_all` is true, or `req_ids` is a list of at least one id."""
    return order.get("abort_all") is True or bool(_ids(order))


def _ids(order: Mapping[str, Any]) -> list[str]:
    """The ids named; empty unless all of them are non-empty strings."""
    ids = order.get("req_ids")
    if isinstance(ids, list) and all(isinstance(one, str) and one for one in ids):
        return ids
    return []
