"""GET /v1/models: what all workers together serve."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from warmroute.control.parts import ControlParts


def models_routes(parts: ControlParts) -> APIRouter:
    """OpenAI's list object over the routable workers, sorted by id."""
    routes = APIRouter()

    @routes.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": sorted(parts.fleet.models(), key=lambda card: card["id"])})

    return routes
