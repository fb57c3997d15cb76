"""vLLM's handshake with the NIXL connector, as seen in vLLM 0.32: `kv_transfer_params` in the request and the answer.

Asked with `do_remote_decode`, a prefill engine keeps the blocks of the prompt and answers with a handle to them. The
decode engine gets the handle unchanged, pulls the blocks from `remote_host:remote_port` and computes the last prompt
token, hence the first answer token, by itself. Without a handle it serves a request alone. Here the two know their
roles and refuse the other one's; real engines play either. `remote_port` is the engine's HTTP port.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import GenerationRequest
from warmroute.simulation.job import Job
from warmroute.simulation.pd.plans import DecodePlan, Fields, Identity, PrefillPlan, seal_of
from warmroute.simulation.pd.puller import KvSource

PARAMS = "kv_transfer_params"

_HANDLE_TYPES: dict[str, type] = {
    "do_remote_decode": bool,
    "remote_engine_id": str,
    "remote_request_id": str,
    "remote_host": str,
    "remote_port": int,
    "remote_block_ids": list,
    "remote_num_tokens": int,
    "remote_blocks_expiry_time": float,
    "transfer_mode": str,
    "tp_size": int,
}


class VllmWire:
    """The handshake of one engine."""

    single_use = True

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._count = itertools.count(1)

    def prefill(self, fields: Fields, request: GenerationRequest) -> PrefillPlan | None:
        """With `do_remote_decode`, a key that no other request has."""
        params = _params(fields, request)
        if params is None:
            return None
        if params.get("do_remote_prefill"):
            raise ApiError("This is a prefill engine: it cannot do_remote_prefill.", param=PARAMS)
        return PrefillPlan((f"{self._identity.engine_id}/{next(self._count)}",), handle=self._handle)

    def _handle(self, job: Job, key: str) -> dict[str, Any]:
        engine_id, _, request_id = key.partition("/")
        blocks = -(-job.context_tokens // self._identity.settings.block_size)
        params = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": engine_id,
            "remote_request_id": request_id,
            "remote_host": self._identity.host,
            "remote_port": self._identity.port,
            "remote_block_ids": [list(range(1, blocks + 1))],
            "remote_num_tokens": job.context_tokens,
            "remote_blocks_expiry_time": time.time() + self._identity.settings.lease_seconds,
            "transfer_mode": "pull",
            "tp_size": self._identity.settings.tp_size,
        }
        return {PARAMS: params}

    def decode(self, fields: Fields, request: GenerationRequest) -> DecodePlan | None:
        """With `do_remote_prefill`, a whole handle."""
        params = _params(fields, request)
        if params is None:
            return None
        if params.get("do_remote_decode"):
            raise ApiError("This is a decode engine: it cannot do_remote_decode.", param=PARAMS)
        for name, kind in _HANDLE_TYPES.items():
            if type(params.get(name)) is not kind:
                raise ApiError(f"`{name}` is missing in the handle, or of another type.", param=PARAMS)
        source = KvSource(
            params["remote_host"],
            params["remote_port"],
            f"{params['remote_engine_id']}/{params['remote_request_id']}",
            seal_of({PARAMS: params}),
            early=False,
        )
        return DecodePlan((source,), with_word=False, may_recompute=True, streams_loss=True)


def _params(fields: Fields, request: GenerationRequest) -> Fields | None:
    """The parameters, if they ask for anything. A handle stands for one sequence."""
    params = fields.get(PARAMS)
    if params is None:
        return None
    if not isinstance(params, dict):
        raise ApiError(f"`{PARAMS}` must be an object.", param=PARAMS)
    asked = [params.get("do_remote_decode") is True, params.get("do_remote_prefill") is True]
    if not any(asked):
        return None
    if all(asked):
        raise ApiError("`do_remote_decode` and `do_remote_prefill` exclude each other.", param=PARAMS)
    if len(request.prompts) > 1:
        raise ApiError("One handle stands for one sequence: several prompts cannot be handed over.", param=PARAMS)
    return params
