"""GET /docs and /openapi.json: Swagger UI over the description, with files of installed packages only."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from warmroute.control.describe.openapi import openapi

_ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Warmroute: control endpoints</title>
<link rel="icon" href="ui/mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="docs/swagger-ui.css">
<script defer src="docs/swagger-ui-bundle.js"></script>
<script defer src="docs/start.js"></script>
</head>
<body><main id="docs"></main></body>
</html>
"""
_START = 'SwaggerUIBundle({ url: "openapi.json", dom_id: "#docs", validatorUrl: null, tryItOutEnabled: true });\n'
_HEADERS = {
    # Swagger UI sets styles in its markup and draws its icons from data URLs.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def description_routes(version: str) -> APIRouter:
    """The document is made once, when it is first asked for."""
    routes = APIRouter(include_in_schema=False)
    made: list[Response] = []

    @routes.get("/openapi.json")
    async def document() -> Response:
        if not made:
            made.append(JSONResponse(openapi(version)))
        return made[0]

    @routes.get("/docs")
    async def page() -> Response:
        return HTMLResponse(_PAGE, headers=_HEADERS)

    @routes.get("/docs/start.js")
    async def start() -> Response:
        return Response(_START, media_type="text/javascript", headers=_HEADERS)

    @routes.get("/docs/{name}")
    async def asset(name: str) -> Response:
        if name not in _ASSETS:
            raise HTTPException(404)
        # The package carries the files of Swagger UI as they are; of its code nothing is used.
        path = Path(str(files("fastapi_offline") / "static" / name))
        return FileResponse(path, media_type=_ASSETS[name], headers=_HEADERS)

    return routes
