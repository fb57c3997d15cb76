"""FastDeploy's handshake: `disaggregate_info` with its eight keys and a `request_id`, in one body for both engines.

The handover has the id of the request; its prompts are counted. Prefill answers with its first token, which goes to the
decode engine along with the KV cache. Each engine checks what it can know: that the ports, devices and size told of it
are its own, that the protocol is one it has, and that both engines were told the same.

A request that was given back once comes again with `completion_token_ids`, the answer tokens so far. They must be the
begin of the answer, whose text is whole again. If it is given back once more, it tells the ids of its new tokens only:
FastDeploy's own router adds them to those before.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from xxhash import xxh3_64_intdigest

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.pd.plans import DecodePlan, Fields, Identity, PrefillPlan, seal_of
from warmroute.simulation.pd.puller import KvSource
from warmroute.simulation.tokens import answer_words, unpack_ids

INFO = "disaggregate_info"
SPOKEN = "completion_token_ids"

_TYPES: dict[str, type] = {
    "prefill_ip": str,
    "decode_ip": str,
    "prefill_connector_port": int,
    "decode_connector_port": int,
    "decode_device_ids": list,
    "decode_rdma_ports": list,
    "transfer_protocol": str,
    "decode_tp_size": int,
}


class FastDeployWire:
    """The handshake of one engine."""

    single_use = False

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def prefill(self, fields: Fields, request: GenerationRequest) -> PrefillPlan:
        """Checks what is told of this engine, and that its size fits."""
        info = self._info(fields)
        self._is_own(info, "prefill_connector_port", self._identity.meeting_port)
        if info["decode_tp_size"] not in (1, self._identity.settings.tp_size):
            raise _mismatch("decode_tp_size", f"1 or {self._identity.settings.tp_size}", info)
        return PrefillPlan(_keys(request), seal_of(info), spoken=_spoken(fields, request))

    def decode(self, fields: Fields, request: GenerationRequest) -> DecodePlan:
        """Checks what is told of this engine. Engines that did not register tell neither devices nor RDMA ports."""
        info = self._info(fields)
        tp_size = self._identity.settings.tp_size
        self._is_own(info, "decode_connector_port", self._identity.meeting_port)
        self._is_own(info, "decode_tp_size", tp_size)
        devices, rdma_ports = parallel_resources(tp_size, self._identity.meeting_port)
        if info["decode_device_ids"]:
            self._is_own(info, "decode_device_ids", devices)
        if info["decode_rdma_ports"]:
            self._is_own(info, "decode_rdma_ports", rdma_ports)
        where = (info["prefill_ip"], info["prefill_connector_port"])
        sources = tuple(KvSource(*where, key, seal_of(info)) for key in _keys(request))
        return DecodePlan(sources, with_word=True, spoken=_spoken(fields, request))

    def _info(self, fields: Fields) -> dict[str, Any]:
        info = fields.get(INFO)
        if not isinstance(info, dict):
            raise ApiError(f"`{INFO}` is missing: this engine's role is {self._identity.settings.role}.", param=INFO)
        if info.keys() != _TYPES.keys():
            raise ApiError(f"`{INFO}` must have the keys {', '.join(_TYPES)}.", param=INFO)
        for name, kind in _TYPES.items():
            if type(info[name]) is not kind:
                raise ApiError(f"`{name}` must be of type {kind.__name__}.", param=INFO)
        for name in ("decode_device_ids", "decode_rdma_ports"):
            if not all(isinstance(item, str) for item in info[name]):
                raise ApiError(f"`{name}` must be a list of strings.", param=INFO)
        if info["transfer_protocol"] not in self._identity.settings.transfer_protocol:
            raise _mismatch("transfer_protocol", " or ".join(self._identity.settings.transfer_protocol), info)
        if info["transfer_protocol"] == "ipc" and info["prefill_ip"] != info["decode_ip"]:
            raise ApiError("ipc does not reach another host.", param=INFO)
        return info

    def _is_own(self, info: dict[str, Any], name: str, own: object) -> None:
        if info[name] != own:
            raise _mismatch(name, own, info)


def parallel_resources(tp_size: int, meeting_port: int) -> tuple[list[str], list[str]]:
    """Device ids and RDMA ports of an engine, one each for every rank."""
    return [str(rank) for rank in range(tp_size)], [str(meeting_port)] * tp_size


def _mismatch(name: str, own: object, info: dict[str, Any]) -> ApiError:
    return ApiError(f"`{name}` of this engine is {own}, not {info[name]}.", param=INFO)


def _keys(request: GenerationRequest) -> tuple[str, ...]:
    if not request.request_id:
        raise ApiError("A `request_id` is required: both engines know the request by it.", param="request_id")
    return tuple(f"{request.request_id}_{at}" for at in range(len(request.prompts)))


def _spoken(fields: Fields, request: GenerationRequest) -> int:
    """How many answer tokens there are already."""
    ids = fields.get(SPOKEN)
    if ids is None or ids == []:
        return 0
    if not isinstance(ids, list) or len(request.prompts) > 1 or len(ids) >= request.max_tokens:
        raise ApiError(f"`{SPOKEN}` must be the first tokens of the answer to one prompt.", param=SPOKEN)
    words = "".join(islice(answer_words(xxh3_64_intdigest(request.prompts[0])), len(ids)))
    if ids != unpack_ids(words.encode("ascii")):
        raise ApiError(f"`{SPOKEN}` are not the begin of the answer to this prompt.", param=SPOKEN)
    return len(ids)
