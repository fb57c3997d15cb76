"""vLLM with the NIXL connector: the prefill engine first, then the decode engine, which pulls the KV cache from it.

The prefill leg generates one token and answers with `kv_transfer_params`, the handle to the blocks that it keeps (for
30 s by default); the decode leg is the client's body with that object, unchanged. Measured with vLLM 0.32. The handle
names the prefill engine only, so that any decode engine may take it.

Not handed over, because one handle stands for one sequence whose prompt is computed by the other engine: several
sequences, several prompts, log probabilities of the prompt. A Mooncake connector needs its bootstrap server to be asked
for each engine's id before a request; what is known of that is too little to rely on, so such a pair is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Literal

from warmroute.engines.dialect import OTHER_PATH, DecodeRequest, InTurn, Request, pair_headers
from warmroute.engines.dialects.batch import batch_size
from warmroute.engines.dialects.vllm_early_error import early_error
from warmroute.engines.dialects.vllm_usage import CachedTokensEdit, cached_tokens
from warmroute.engines.event_stream import StreamBegin
from warmroute.engines.peer import Peer
from warmroute.prompts.splice import read_members

_NIXL = "NixlConnector"
_WANTED = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,'
    b'"remote_host":null,"remote_port":null}'
)
_PREFILL_CHANGES: Mapping[str, bytes | None] = MappingProxyType(
    {
        "stream": b"false",
        "stream_options": None,
        "max_tokens": b"1",
        # Or an end-of-sequence token finished the request, and a finished request leaves no handle.
        "min_tokens": b"1",
        "kv_transfer_params": _WANTED,
    }
)
_ABSENT = (b"null", b"false", b"0", b"1")
"""Values with which the options below ask for nothing that matters here."""
_SEVERAL_SEQUENCES = ("n", "best_of", "use_beam_search")


@dataclass(frozen=True, slots=True)
class VLLM:
    """The dialect of vLLM engines."""

    name: str = "vllm"
    order: Literal["together", "in_turn"] = "in_turn"
    decodes_alone: bool = True

    def why_not(self, prefill: Peer, decode: Peer) -> str | None:
        """The connector, where it is known. Engines check by themselves whether their caches fit."""
        for role, peer in (("prefill", prefill), ("decode", decode)):
            if peer.kv_connector not in (None, _NIXL):
                return f"KV connector {peer.kv_connector} of {role}: only {_NIXL} is supported"
        return None

    def is_near(self, prefill: Peer, decode: Peer) -> bool:
        """One host."""
        return prefill.host == decode.host

    def alone_because(self, request: Request) -> str | None:
        """Requests for which one handle is not enough, or the wrong thing."""
        if request.kind == "other":
            return OTHER_PATH
        members = request.members
        if any(members.get(name, b"null") not in _ABSENT for name in _SEVERAL_SEQUENCES):
            return "several_sequences"
        if members.get("prompt_logprobs", b"null") != b"null" or members.get("echo") == b"true":
            return "prompt_logprobs"
        if request.kind == "completions" and batch_size(members.get("prompt", b"null")) not in (None, 1):
            return "several_prompts"
        return None

    def begin(self, request: Request, prefill: Peer, decode: Peer, rng: Random) -> InTurn:
        """The prefill leg; nothing is random, since the prefill engine makes the handle."""
        changes = dict(_PREFILL_CHANGES)
        if "max_completion_tokens" in request.members:
            changes["max_completion_tokens"] = b"1"
        return InTurn(
            request.with_changes(changes),
            partial(_follow, request),
            pair_headers(prefill, decode),
            partial(pair_headers, prefill),
        )


def _follow(request: Request, answer: bytes) -> DecodeRequest:
    members = read_members(answer)
    handle = members.get("kv_transfer_params", b"null")
    if not handle.startswith(b"{"):
        return DecodeRequest(request.body, recomputes=True)
    cached = cached_tokens(members.get("usage", b"null"))
    edit = None if cached is None else CachedTokensEdit(cached)
    watch = partial(StreamBegin, early_error) if request.stream else None
    return DecodeRequest(request.with_changes({"kv_transfer_params": handle}), edit=edit, watch=watch)


VLLM_NIXL = VLLM()
