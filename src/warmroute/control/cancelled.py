"""Answering what is cancelled: the server does that to requests for which it waits no longer when it stops."""

from __future__ import annotations

import asyncio

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SHUTTING_DOWN = {"code": 503, "msg": "The router is shutting down"}


class AnswersWhenCancelled:
    """ASGI middleware: a cancelled request is 503, of which the server would make an error with a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything else than a request passes through."""
        started = False

        async def noting_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noting_start)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            if not started:
                await JSONResponse(_SHUTTING_DOWN, 503, {"Connection": "close"})(scope, receive, send)
