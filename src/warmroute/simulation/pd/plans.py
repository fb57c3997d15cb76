"""What a dialect's handshake comes to, once it is read: the same few facts for all three."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from xxhash import xxh3_64_hexdigest

from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.job import Job
from warmroute.simulation.pd.puller import KvSource
from warmroute.simulation.settings import EngineSettings

Fields = Mapping[str, Any]
"""The members of a request."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an engine is in a handshake. `meeting_port` is its bootstrap or connector port, or else its HTTP port."""

    settings: EngineSettings
    host: str
    port: int
    meeting_port: int
    engine_id: str


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """Prefill for decode engines. One key for each prompt; `seal` is what their decode engine must have been told too.

    `handle` makes members for the answer, which are then the seal. Without it the request is cut to one token.
    `answers_when_sent`: the answer waits until the KV cache was fetched.
    """

    keys: tuple[str, ...]
    seal: str = ""
    handle: Callable[[Job, str], dict[str, Any]] | None = None
    answers_when_sent: bool = False
    spoken: int = 0


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """Decode what was prefilled elsewhere. One source for each prompt; `with_word`: the first token comes with it.

    `single_use`: the keys must not have been seen before. `may_recompute`: what does not come can be computed here.
    `streams_loss`: when it does not come, a stream has begun, with status 200, and tells it by an error event.
    """

    sources: tuple[KvSource, ...]
    with_word: bool
    single_use: bool = False
    may_recompute: bool = False
    streams_loss: bool = False
    spoken: int = 0


class Wire(Protocol):
    """A dialect's handshake. Both methods raise ApiError for what makes no sense, and give None where there is none."""

    @property
    def single_use(self) -> bool:
        """Whether a key may be used once only."""

    def prefill(self, fields: Fields, request: GenerationRequest) -> PrefillPlan | None:
        """What a prefill engine is asked for."""

    def decode(self, fields: Fields, request: GenerationRequest) -> DecodePlan | None:
        """What a decode engine is asked for."""


def seal_of(parameters: object) -> str:
    """Stands for JSON parameters, down to the last digit of a number; the order of members does not matter."""
    return xxh3_64_hexdigest(json.dumps(parameters, sort_keys=True).encode())
