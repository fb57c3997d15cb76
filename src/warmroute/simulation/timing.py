"""How long the simulated engine takes. Pure arithmetic in engine seconds; `--speed` maps them to real ones elsewhere.

- Prefill works on one prompt after the other:  `latency + uncached_tokens / prefill_speed`  seconds for each.
- A KV cache goes from one engine to another in  `tokens / transfer_speed`  seconds; transfers do not slow each other.
- Decode works in steps. A step gives every running request one token and takes
  `(1 + batch_slowdown * (batch - 1)) / decode_speed`  seconds for a batch of that many requests.

Prefill and decode do not slow each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Speeds in tokens per second, `latency` in seconds per prompt, `batch_slowdown` per further request in a batch."""

    prefill_speed: float = 8000.0
    decode_speed: float = 50.0
    latency: float = 0.0
    batch_slowdown: float = 0.02
    transfer_speed: float = 200_000.0

    def prefill_seconds(self, uncached_tokens: int) -> float:
        """Seconds until a prompt with so many uncached tokens has its first answer token."""
        return self.latency + uncached_tokens / self.prefill_speed

    def transfer_seconds(self, tokens: int) -> float:
        """Seconds that the KV cache of so many tokens is on its way."""
        return tokens / self.transfer_speed

    def step_seconds(self, batch: int) -> float:
        """Seconds of one decode step of `batch` requests (at least one)."""
        return (1.0 + self.batch_slowdown * (batch - 1)) / self.decode_speed
