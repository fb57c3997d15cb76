"""What an engine has counted of its handovers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class KvCounts:
    """Prompts, in both roles.

    As prefill engine: `offered` prompts were prefilled for a decode engine; each is later `sent`, `expired` (nobody
    came) or `withdrawn` (its request ended before). As decode engine: of `received` prompts the KV cache came and was
    that of the same prompt; `mismatches` belonged to another one; `failed` did not come, and `recomputed` of them were
    computed here instead; `alone` were sent without a handle; `given_back` were received and then given up on purpose.
    `refused` requests, in either role, had no handshake that makes sense.
    """

    offered: int = 0
    sent: int = 0
    expired: int = 0
    withdrawn: int = 0
    received: int = 0
    mismatches: int = 0
    failed: int = 0
    recomputed: int = 0
    alone: int = 0
    given_back: int = 0
    refused: int = 0
