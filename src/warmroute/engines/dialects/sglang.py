"""SGLang: one body for both engines, at once, that names a room on the prefill engine's bootstrap server.

Both engines meet there under `bootstrap_room`, a random number of 63 bits, and the prefill engine writes its KV cache
to the decode engine. A batch of prompts takes arrays, one room for each prompt.

The prompt is computed by the prefill engine alone. So whoever asks for log probabilities of it (`return_logprob`) gets
the prefill engine's entries before the decode engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

import msgspec
from msgspec import Raw

from warmroute.engines.dialect import OTHER_PATH, Request, Together
from warmroute.engines.dialects.batch import batch_size
from warmroute.engines.dialects.sglang_logprobs import merge_input_logprobs
from warmroute.engines.peer import Peer
from warmroute.prompts.body import Kind
from warmroute.prompts.fields import MISSING, HandoverFields
from warmroute.prompts.splice import append, splice

DEFAULT_BOOTSTRAP_PORT = 8998
"""SGLang's default of --disaggregation-bootstrap-port."""

_MAX_PORT = 65535
_ROOM_BITS = 63


@dataclass(frozen=True, slots=True)
class SGLang:
    """The dialect of SGLang engines."""

    name: str = "sglang"
    order: Literal["together", "in_turn"] = "together"
    decodes_alone: bool = False
    tells_prefill: bool = False

    def why_not(self, prefill: Peer, decode: Peer) -> str | None:
        """The prefill engine must have a bootstrap port, told or the default. Engines compare sizes by themselves."""
        if not 0 <= prefill.bootstrap_port <= _MAX_PORT:
            return f"bootstrap port {prefill.bootstrap_port} of prefill is not a port"
        return None

    def is_near(self, prefill: Peer, decode: Peer) -> bool:
        """One host."""
        return prefill.host == decode.host

    def alone_because(self, request: Request) -> str | None:
        """Besides chat and completions only SGLang's own generate requests take a room."""
        if request.kind == "other" and _native_prompt(request.fields or request.read()) is MISSING:
            return OTHER_PATH
        return None

    def begin(self, request: Request, prefill: Peer, decode: Peer, rng: Random) -> Together:
        """One body for both, with rooms that were never used before."""
        host = f"[{prefill.host}]" if ":" in prefill.host else prefill.host
        port = prefill.bootstrap_port or DEFAULT_BOOTSTRAP_PORT
        fields = request.fields or request.read()
        # A chat is one prompt.
        size = None if request.kind == "chat" else _rooms(request.kind, fields)
        meeting: dict[str, object]
        if size is None:
            meeting = {"bootstrap_host": host, "bootstrap_port": port, "bootstrap_room": rng.getrandbits(_ROOM_BITS)}
        else:
            rooms = [rng.getrandbits(_ROOM_BITS) for _ in range(size)]
            meeting = {"bootstrap_host": [host] * size, "bootstrap_port": [port] * size, "bootstrap_room": rooms}
        if fields.bootstrap_host is fields.bootstrap_port is fields.bootstrap_room is MISSING:
            body = append(request.body, msgspec.json.encode(meeting)[1:-1])
        else:
            body = splice(request.body, {name: msgspec.json.encode(value) for name, value in meeting.items()})
        merge = None
        if fields.return_logprob is not MISSING and bytes(fields.return_logprob) not in (b"null", b"false"):
            merge = partial(merge_input_logprobs, stream=request.stream)
        return Together(body, body, merge)


def _native_prompt(fields: HandoverFields) -> Raw:
    """The prompt of a request to SGLang's own `/generate`."""
    return fields.input_ids if fields.text is MISSING else fields.text


def _rooms(kind: Kind, fields: HandoverFields) -> int | None:
    """How many rooms a batch takes; None for one room, from which the engines count on by themselves if need be."""
    prompt = fields.prompt if kind == "completions" else _native_prompt(fields)
    # With several samples of each prompt, engines repeat the rooms of an array; those of a single room they tell apart.
    if prompt is MISSING or (fields.n is not MISSING and bytes(fields.n) not in (b"1", b"null")):
        return None
    return batch_size(prompt) or None


SGLANG = SGLang()
