"""Reading request bodies: bounded, whatever the content type, and never a surprise from a parser."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request

MAX_BODY_BYTES = 1024 * 1024


class BodyTooLargeError(Exception):
    """The body is larger than `MAX_BODY_BYTES`. The rest of it was not read."""

    def __init__(self) -> None:
        super().__init__(f"request body is larger than {MAX_BODY_BYTES} bytes")


class BadJsonError(Exception):
    """The body is not JSON, or not the JSON that was asked for; the message says what is wrong with it."""


async def read_body(request: Request) -> bytes:
    """The whole body. Raises BodyTooLargeError, and starlette's ClientDisconnect when the client leaves early."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLargeError
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """`body` decoded. Raises BadJsonError, also for what is nested too deeply to be decoded."""
    if not body.strip():
        raise BadJsonError("the body is empty")
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadJsonError(str(error)) from error
    except RecursionError as error:
        raise BadJsonError("too deeply nested") from error


def parse_object(body: bytes) -> dict[str, Any]:
    """`body` as a JSON object. Raises BadJsonError."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise BadJsonError("expected an object")
    return value
