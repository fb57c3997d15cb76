"""SGLang's handshake: `bootstrap_host`, `bootstrap_port` and `bootstrap_room` in one body that goes to both engines.

Both meet in a room of the prefill engine's bootstrap server. A batch brings an array of each, or one room, from which
the prompts are counted on. The prefill engine answers when its KV cache was fetched; the first token goes with it.
"""

from __future__ import annotations

from typing import Any

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.pd.plans import DecodePlan, Fields, Identity, PrefillPlan
from warmroute.simulation.pd.puller import KvSource

_MAX_PORT = 65535
_ROOMS = 2**63


class SglangWire:
    """The handshake of one engine."""

    single_use = True

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def prefill(self, fields: Fields, request: GenerationRequest) -> PrefillPlan:
        """Rooms at this engine's own bootstrap port."""
        meetings = _meetings(fields, len(request.prompts))
        for source in meetings:
            if source.port != self._identity.meeting_port:
                told = f"this engine's is {self._identity.meeting_port}, not {source.port}"
                raise ApiError(f"The bootstrap port is another engine's: {told}.", param="bootstrap_port")
        return PrefillPlan(tuple(source.key for source in meetings), answers_when_sent=True)

    def decode(self, fields: Fields, request: GenerationRequest) -> DecodePlan:
        """Rooms that were never used before."""
        return DecodePlan(_meetings(fields, len(request.prompts)), with_word=True, single_use=True)


def _meetings(fields: Fields, prompts: int) -> tuple[KvSource, ...]:
    if fields.get("bootstrap_room") is None:
        raise ApiError("Disaggregated request received without bootstrap room id.", param="bootstrap_room")
    rooms = _spread(fields, "bootstrap_room", prompts)
    if not isinstance(fields["bootstrap_room"], list):
        rooms = [room + at if type(room) is int else room for at, room in enumerate(rooms)]
    hosts, ports = _spread(fields, "bootstrap_host", prompts), _spread(fields, "bootstrap_port", prompts)
    meetings = tuple(map(_meeting, hosts, ports, rooms))
    if len({source.key for source in meetings}) < len(meetings):
        raise ApiError("Every prompt must have a room of its own.", param="bootstrap_room")
    return meetings


def _spread(fields: Fields, name: str, prompts: int) -> list[Any]:
    """One value for each prompt."""
    value = fields.get(name)
    if not isinstance(value, list):
        return [value] * prompts
    if len(value) != prompts:
        raise ApiError(f"`{name}` has {len(value)} entries for {prompts} prompts.", param=name)
    return value


def _meeting(host: Any, port: Any, room: Any) -> KvSource:
    if not isinstance(host, str) or not host:
        raise ApiError("`bootstrap_host` must be the name of a host.", param="bootstrap_host")
    if type(port) is not int or not 1 <= port <= _MAX_PORT:
        raise ApiError("`bootstrap_port` must be a port.", param="bootstrap_port")
    if type(room) is not int or not 0 <= room < _ROOMS:
        raise ApiError("`bootstrap_room` must be a number of 63 bits.", param="bootstrap_room")
    return KvSource(host, port, str(room))
