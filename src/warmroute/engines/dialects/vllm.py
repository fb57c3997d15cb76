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

import msgspec
from msgspec import Raw

from warmroute.engines.dialect import OTHER_PATH, DecodeRequest, InTurn, Request
from warmroute.engines.dialects.batch import batch_size
from warmroute.engines.dialects.vllm_early_error import early_error
from warmroute.engines.dialects.vllm_usage import UNREADABLE, CachedTokensEdit, cached_tokens
from warmroute.engines.event_stream import StreamBegin
from warmroute.engines.peer import Peer
from warmroute.prompts.fields import MISSING, HandoverFields
from warmroute.prompts.splice import append, splice

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


class _Prefilled(msgspec.Struct, frozen=True, gc=False):
    """What a prefill engine's answer is asked for."""

    kv_transfer_params: Raw = MISSING
    usage: Raw = MISSING


_prefilled = msgspec.json.Decoder(_Prefilled)


@dataclass(frozen=True, slots=True)
class VLLM:
    """The dialect of vLLM engines."""

    name: str = "vllm"
    order: Literal["together", "in_turn"] = "in_turn"
    decodes_alone: bool = True
    tells_prefill: bool = True

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
        fields = request.fields or request.read()
        if not fields.n is fields.best_of is fields.use_beam_search is MISSING:
            options = (fields.n, fields.best_of, fields.use_beam_search)
            if any(option is not MISSING and bytes(option) not in _ABSENT for option in options):
                return "several_sequences"
        if fields.prompt_logprobs is not MISSING and bytes(fields.prompt_logprobs) != b"null":
            return "prompt_logprobs"
        if fields.echo is not MISSING and bytes(fields.echo) == b"true":
            return "prompt_logprobs"
        if request.kind == "completions" and fields.prompt is not MISSING:
            return None if batch_size(fields.prompt) in (None, 1) else "several_prompts"
        return None

    def begin(self, request: Request, prefill: Peer, decode: Peer, rng: Random) -> InTurn:
        """The prefill leg; nothing is random, since the prefill engine makes the handle."""
        fields = request.fields or request.read()
        changes = _PREFILL_CHANGES
        if fields.max_completion_tokens is not MISSING:
            changes = {**changes, "max_completion_tokens": b"1"}
        return InTurn(_spliced(request.body, changes, fields), partial(_follow, request), any_follows=True)


def _follow(request: Request, answer: bytes) -> DecodeRequest:
    try:
        prefilled = _prefilled.decode(answer)
    except UNREADABLE:
        prefilled = _Prefilled()
    handle = bytes(prefilled.kv_transfer_params)
    if not handle.startswith(b"{"):
        return DecodeRequest(request.body, recomputes=True)
    cached = cached_tokens(prefilled.usage)
    edit = None if cached is None else CachedTokensEdit(cached)
    watch = partial(StreamBegin, early_error) if request.stream else None
    fields = request.fields or request.read()
    return DecodeRequest(_spliced(request.body, {"kv_transfer_params": handle}, fields), edit=edit, watch=watch)


def _spliced(body: bytes, changes: Mapping[str, bytes | None], fields: HandoverFields) -> bytes:
    """The body with these changes, found without another scan of it."""
    if any(getattr(fields, name) is not MISSING for name in changes):
        return splice(body, changes, fields.text_of)
    return append(body, b",".join([b'"%b":%b' % (name.encode(), text) for name, text in changes.items() if text]))


VLLM_NIXL = VLLM()
