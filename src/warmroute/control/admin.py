"""GET /admin/state, /admin/history and /admin/events: the router as a page or a terminal shows it. Nothing is changed.
GET /admin/decisions: why requests went where they went, as far as somebody asked for that.

The events are a stream of server-sent events: `state` every second with the body of /admin/state, `sample` with every
new entry of /admin/history. All of it comes from memory, and each frame is made once for all who watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel

from warmroute.control.admin_models import RouterHistory, RouterState
from warmroute.control.decision_models import Decisions, decisions_view
from warmroute.control.errors import OpenAIError
from warmroute.control.live_feed import MAX_WATCHERS
from warmroute.control.parts import ControlParts
from warmroute.control.snapshots import Snapshots

_FRESH = {"cache-control": "no-store"}


def admin_routes(parts: ControlParts) -> APIRouter:
    """Three ways to see the same (once, the last minutes, as it changes), and the last decisions."""
    routes = APIRouter(prefix="/admin")
    snapshots = Snapshots(parts)
    frames = Frames(snapshots)

    @routes.get("/state", response_model=RouterState)
    async def state() -> Response:
        return _json(snapshots.state())

    @routes.get("/history", response_model=RouterHistory)
    async def history() -> Response:
        return _json(snapshots.history())

    @routes.get("/events", response_class=StreamingResponse)
    async def events() -> Response:
        if parts.feed.is_full:
            raise OpenAIError(503, f"{MAX_WATCHERS} clients watch already", code="too_many_watchers")
        return StreamingResponse(_stream(parts, frames), media_type="text/event-stream", headers=_FRESH)

    @routes.get("/decisions", response_model=Decisions)
    async def decisions(limit: Annotated[int, Query(ge=1)] = 50) -> Response:
        return _json(decisions_view(parts.decisions.newest(limit)))

    return routes


class Frames:
    """Makes the frames of the stream; a sample is told in the first frame after it was taken."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._told_until = 0.0

    def next(self) -> bytes:
        """The events of this second, as bytes on the wire."""
        frame = event("state", self._snapshots.state())
        sample = self._snapshots.newest_sample()
        if sample is not None and sample.time > self._told_until:
            self._told_until = sample.time
            frame += event("sample", sample)
        return frame

    def first(self) -> bytes:
        """What somebody who comes now is told at once."""
        return event("state", self._snapshots.state())


def event(name: str, content: BaseModel) -> bytes:
    """One server-sent event (WHATWG HTML, section 9.2). JSON has no line breaks of its own."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), content.model_dump_json().encode())


async def _stream(parts: ControlParts, frames: Frames) -> AsyncIterator[bytes]:
    yield frames.first()
    async for frame in parts.feed.frames(frames.next):
        yield frame


def _json(content: BaseModel) -> Response:
    return Response(content.model_dump_json(), media_type="application/json", headers=_FRESH)
