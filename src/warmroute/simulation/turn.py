"""How an engine serves one request. Alone, it just answers; in prefill/decode disaggregation there is more to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.generation import Generation


class Turn(Protocol):
    """One request on its way to an answer."""

    @property
    def request(self) -> GenerationRequest:
        """What is to be generated."""

    async def answer(self, generation: Generation, http_request: web.Request) -> web.StreamResponse:
        """Answer with the generation that was made for `request`. Raises ApiError."""


class Part(Protocol):
    """The part that an engine plays."""

    def turn(self, fields: Mapping[str, Any], request: GenerationRequest) -> Turn:
        """How to serve a checked request with these members. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class AloneTurn:
    """Prompt and answer are both computed here."""

    request: GenerationRequest

    async def answer(self, generation: Generation, http_request: web.Request) -> web.StreamResponse:
        """Answer."""
        return await generation.answer(http_request)


class Alone:
    """The part of an engine that serves requests alone."""

    def turn(self, fields: Mapping[str, Any], request: GenerationRequest) -> AloneTurn:
        """Every request."""
        return AloneTurn(request)
