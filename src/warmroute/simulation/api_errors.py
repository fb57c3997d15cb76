"""Errors that the simulated engine answers with, in the form of the OpenAI API as vLLM fills it."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A request that is refused: HTTP `status`, `message` for the user, `param` that is at fault."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, kind: str = "BadRequestError"):
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        """The JSON answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}
