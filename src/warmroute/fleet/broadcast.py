"""One request body to every worker, all answers back within a deadline. What they mean is the caller's business."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from warmroute.fleet.client import REQUEST_ERRORS, EngineClient
from warmroute.fleet.member import Member


@dataclass(frozen=True, slots=True)
class Answer:
    """What one worker said. `status` is None when there was no answer at all.

    `body` is the decoded JSON, or None when the answer was not JSON. `error` is None for a 2xx answer, else it says
    what went wrong.
    """

    member: Member
    status: int | None
    body: object = None
    error: str | None = None


async def broadcast(
    client: EngineClient, members: Iterable[Member], path: str, body: bytes, seconds: float
) -> list[Answer]:
    """POST the JSON body to all members at once. Takes at most so many `seconds`; never raises for a worker's fault."""
    return list(await asyncio.gather(*(_ask(client, member, path, body, seconds) for member in members)))


async def _ask(client: EngineClient, member: Member, path: str, body: bytes, seconds: float) -> Answer:
    try:
        status, answer = await client.post(member.url, path, body, seconds)
    except REQUEST_ERRORS as error:
        return Answer(member, None, error=client.explain(error, seconds))
    failure = None if 200 <= status < 300 else f"HTTP {status}"
    try:
        return Answer(member, status, msgspec.json.decode(answer), failure)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return Answer(member, status, None, failure)
