"""GET /metrics: the Prometheus page."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import Metric
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
        page = _Page(list(registry.collect()))
        # Writing it down takes longer than reading the values, and needs none of the router's objects any more.
        text = await asyncio.to_thread(encode, page)
        return Response(text, headers={"content-type": content_type})

    return routes


class _Page:
    """What a registry had to tell at one moment."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
