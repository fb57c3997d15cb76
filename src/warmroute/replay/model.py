"""How long a step of a replayed engine takes: continuous batching with chunked prefill, in seconds.

An engine works in steps. A step gives one token to every request that is decoding, and what is left of its budget of
tokens goes to prompts, first come, first served; a long prompt takes several steps. One step takes

    step + prefill_token * n + attention * sum(tokens before each of them) + request * batch + context * held

for `n` prompt tokens and `batch` decoding requests that hold `held` tokens together. These are the terms of a roofline
of a transformer: weights are read once a step, prompt tokens are bound by arithmetic (linear in the weights, quadratic
in attention), decoding is bound by reading the KV cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt


@dataclass(frozen=True, slots=True)
class EngineModel:
    """Seconds per step, prompt token, attended pair, decoding request and held token; and the engine's limits.

    The defaults are those of a 70B model on four H100 in round figures: 20,000 prompt tokens a second, less in long
    prompts, and 10 ms to 40 ms for a token of an answer.
    """

    step: float = 10e-3
    prefill_token: float = 50e-6
    attention: float = 1e-9
    request: float = 100e-6
    context: float = 20e-9
    overhead: float = 0.0
    """Of every request beside the steps, before them: HTTP, tokenising."""
    step_tokens: int = 8192
    """Tokens of one step at most, decoding requests and prompts together (vLLM: max_num_batched_tokens)."""
    max_running: int = 256
    """Requests at most that prefill or decode (vLLM: max_num_seqs)."""
    transfer: float = 5e-3
    """Of a KV cache from a prefill to a decode worker, whatever its size."""
    transfer_token: float = 4e-6

    def faster(self, factor: float) -> EngineModel:
        """The same engine on hardware that is `factor` times as fast."""
        names = ("step", "prefill_token", "attention", "request", "context", "overhead")
        return replace(self, **{name: getattr(self, name) / factor for name in names})

    def decode_step(self, batch: int, held: int) -> float:
        """Seconds of a step that only decodes."""
        return self.step + self.request * batch + self.context * held

    def decode_steps(self, steps: int, batch: int, held: int) -> float:
        """Seconds of so many such steps, the batch growing by a token each in every step."""
        growth = self.context * batch * steps * (steps - 1) / 2
        return steps * self.decode_step(batch, held) + growth

    def steps_begun(self, seconds: float, batch: int, held: int) -> int:
        """How many such steps have begun after so many seconds, at least one: the inverse of `decode_steps`."""
        growth = self.context * batch
        first = self.decode_step(batch, held)
        if growth <= 0:
            return max(1, ceil(seconds / first)) if first else 1
        linear = first - growth / 2
        return max(1, ceil((sqrt(linear * linear + 2 * growth * seconds) - linear) / growth))

    def prefill_seconds(self, tokens: int, before: int = 0) -> float:
        """Seconds of the steps that compute `tokens` prompt tokens behind `before` cached ones, on an idle engine."""
        steps = max(1, -(-tokens // self.step_tokens))
        return steps * self.step + tokens * self.prefill_token + self.attention * tokens * (before + tokens / 2)

    def transfer_seconds(self, tokens: int) -> float:
        """Seconds that the KV cache of so many tokens is on its way."""
        return self.transfer + self.transfer_token * tokens
