"""The control application: everything that the gateway does not take itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from warmroute.config import cors
from warmroute.control.abort import abort_routes
from warmroute.control.access import AccessGuard, AccessRules
from warmroute.control.admin import admin_routes
from warmroute.control.cancelled import AnswersWhenCancelled
from warmroute.control.decode_instances import decode_instances_routes
from warmroute.control.describe.pages import description_routes
from warmroute.control.errors import install_error_handlers
from warmroute.control.health import health_routes
from warmroute.control.live_page import live_page_routes
from warmroute.control.metrics import metrics_routes
from warmroute.control.models import models_routes
from warmroute.control.parts import ControlParts
from warmroute.control.readiness import Readiness
from warmroute.control.register import register_routes
from warmroute.control.workers import workers_routes

PREFLIGHT_MAX_AGE_SECONDS = 3600


def create_control_app(parts: ControlParts) -> FastAPI:
    """Build the app. Its lifespan ends the background checks of /ready; the fleet is started and stopped elsewhere."""
    readiness = Readiness(parts.fleet, parts.config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        readiness.start()
        yield
        await readiness.close()

    app = FastAPI(title="Warmroute", openapi_url=None, lifespan=lifespan)
    install_error_handlers(app, parts.inference_paths)
    for routes in (
        register_routes(parts),
        decode_instances_routes(parts),
        workers_routes(parts),
        health_routes(parts, readiness),
        metrics_routes(parts),
        models_routes(parts),
        abort_routes(parts),
        admin_routes(parts),
        live_page_routes(),
        description_routes(parts.version),
    ):
        app.include_router(routes)
    app.add_middleware(AccessGuard, rules=AccessRules(parts.config))
    if origins := parts.config.server.cors_allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=cors.ALLOWED_METHODS,
            allow_headers=(cors.ANY,),
            expose_headers=cors.EXPOSED_HEADERS,
            max_age=PREFLIGHT_MAX_AGE_SECONDS,
        )
    app.add_middleware(AnswersWhenCancelled)
    return app
