"""FastDeploy: one body for both engines, at once, with `disaggregate_info` and the same `request_id`.

The decode engine allocates blocks, the prefill engine writes the KV cache into them (over shared memory, "ipc", or the
network, "rdma") and sends the first token. Wire format as FastDeploy's own routers send it: disaggregate_info with its
eight keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

import msgspec
from msgspec import Raw

from warmroute.engines.dialect import OTHER_PATH, Request, Together
from warmroute.engines.dialects.fastdeploy_reschedule import FastDeployReschedule
from warmroute.engines.peer import Peer
from warmroute.prompts.fields import MISSING
from warmroute.prompts.splice import append, splice

_QUOTE = ord('"')
_NUMBER_BEGINS = b"-0123456789"


@dataclass(frozen=True, slots=True)
class FastDeploy:
    """The dialect of FastDeploy engines."""

    name: str = "fastdeploy"
    order: Literal["together", "in_turn"] = "together"
    decodes_alone: bool = False
    tells_prefill: bool = True

    def why_not(self, prefill: Peer, decode: Peer) -> str | None:
        """Tensor-parallel sizes, a protocol in common, the model version. What was not told is no objection."""
        if decode.tp_size not in (1, prefill.tp_size):
            return (
                f"tensor-parallel size {prefill.tp_size} of prefill and {decode.tp_size} of decode: "
                "they must be equal, or that of decode 1"
            )
        if None not in (prefill.version, decode.version) and prefill.version != decode.version:
            return f"model version {prefill.version!r} of prefill and {decode.version!r} of decode"
        lists = (prefill.transfer_protocol, decode.transfer_protocol)
        if not _uses_ipc(prefill, decode) and any(protocols and "rdma" not in protocols for protocols in lists):
            shown = " and ".join("+".join(protocols) or "unknown" for protocols in lists)
            return f"transfer protocols {shown} of prefill and decode do not reach from {prefill.host} to {decode.host}"
        return None

    def is_near(self, prefill: Peer, decode: Peer) -> bool:
        """One host; where both told their protocols, a common ipc as well."""
        both_told = prefill.transfer_protocol and decode.transfer_protocol
        return _uses_ipc(prefill, decode) if both_told else prefill.host == decode.host

    def alone_because(self, request: Request) -> str | None:
        """Only chat and completions take `disaggregate_info`."""
        return OTHER_PATH if request.kind == "other" else None

    def begin(self, request: Request, prefill: Peer, decode: Peer, rng: Random) -> Together:
        """One body for both; nothing is random, since the request's own id is the handle."""
        fields = request.fields or request.read()
        request_id = _given_id(fields.request_id) or msgspec.json.encode(request.id)
        if request.attempt:
            # The engines of an earlier attempt may still hold the id (naming as in FastDeploy's Python router).
            request_id = b'%b-retry%d"' % (request_id[:-1], request.attempt)
        info = _disaggregate_info(prefill, decode)
        if fields.disaggregate_info is fields.request_id is MISSING:
            body = append(request.body, b'"disaggregate_info":%b,"request_id":%b' % (info, request_id))
        else:
            body = splice(request.body, {"disaggregate_info": info, "request_id": request_id})
        return Together(body, body, reschedule=FastDeployReschedule(request))


def _uses_ipc(prefill: Peer, decode: Peer) -> bool:
    return (
        prefill.host == decode.host
        and "ipc" in prefill.transfer_protocol
        and "ipc" in decode.transfer_protocol
        and decode.tp_size in (1, prefill.tp_size)
    )


def _disaggregate_info(prefill: Peer, decode: Peer) -> bytes:
    return msgspec.json.encode(
        {
            "prefill_ip": prefill.host,
            "decode_ip": decode.host,
            "prefill_connector_port": prefill.connector_port,
            "decode_connector_port": decode.connector_port,
            "decode_device_ids": decode.device_ids,
            "decode_rdma_ports": decode.rdma_ports,
            "transfer_protocol": "ipc" if _uses_ipc(prefill, decode) else "rdma",
            "decode_tp_size": decode.tp_size,
        }
    )


def _given_id(request_id: Raw) -> bytes | None:
    """The client's id as a JSON string; a number counts as its text, everything else as no id."""
    if request_id is MISSING:
        return None
    text = bytes(request_id)
    if text[0] in _NUMBER_BEGINS:
        return b'"%b"' % text
    return text if text[0] == _QUOTE and text != b'""' else None


FASTDEPLOY = FastDeploy()
