"""GET /metrics: the Prometheus page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client.exposition import choose_encoder

from warmroute.control.parts import ControlParts
from warmroute.telemetry.collector import create_registry


def metrics_routes(parts: ControlParts) -> APIRouter:
    """Prometheus text, or OpenMetrics where the scraper asks for it."""
    routes = APIRouter()
    registry = create_registry(parts.metric_sources())

    @routes.get("/metrics")
    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": content_type})

    return routes
