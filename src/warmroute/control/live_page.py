"""GET /ui: the live page. Its files are part of the package and hold no reference to any other host."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

_PAGE = "index.html"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS = {
    # Whatever a worker calls itself, nothing but our own files is run.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # A new version of the router is a new version of the page.
    "cache-control": "no-cache",
}


def live_page_routes() -> APIRouter:
    """The page at /ui and its files below it, read once."""
    routes = APIRouter(include_in_schema=False)
    contents = {
        file.name: file.read_bytes()
        for file in (files("warmroute.control") / "ui").iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }

    @routes.get("/ui")
    async def page() -> Response:
        return _answer(_PAGE, contents[_PAGE])

    @routes.get("/ui/{name}")
    async def file(name: str) -> Response:
        if name not in contents:
            raise HTTPException(404)
        return _answer(name, contents[name])

    return routes


def _answer(name: str, content: bytes) -> Response:
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)
