"""The little that a scheduler knows of a request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from warmroute.prompts.token_blocks import TokenBlocks


class Prompt(Struct, gc=False):  # a struct, because one is made for every request: it costs a third of a dataclass
    """One request as the scheduler sees it.

    `tokens` is an estimate (UTF-8 bytes / 4, rounded up) or, with a tokenizer or a token-id prompt, exact.
    `fingerprint` holds one chained 64-bit hash per block of the ladder, shallowest first; equal hashes at equal
    depth mean equal prefixes. `seed` is what the chain of a token fingerprint starts from: one hash of all that
    changes the KV cache without being part of the tokens (model, cache salt, template options, tools).
    `witness` hears of the choices that are made for this request, if it is a `scheduling.witness.Witness`.
    `max_tokens` is None when the client set no cap. Like `request_id` and `session_id` it is for policies
    of others; none of our own reads it. `blocks` are the tokens as the engine sees them, if the exact index is used,
    and `known` is what `prompts.known_bodies` keeps of the body until they are made.
    """

    tokens: int = 0
    fingerprint: Sequence[int] = ()
    model: str | None = None
    stream: bool = False
    max_tokens: int | None = None
    request_id: str | None = None
    session_id: str | None = None
    seed: int = 0
    witness: object | None = None
    blocks: TokenBlocks | None = None
    known: object | None = None
