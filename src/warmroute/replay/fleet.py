"""Which engines a trace is replayed against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warmroute.replay.model import EngineModel
from warmroute.scheduling.worker import Role


@dataclass(frozen=True, slots=True)
class Fleet:
    """`workers` mixed engines, or, when both are set, `prefill` and `decode` engines.

    `cache_tokens` is the KV cache of each. `speeds` makes engines differ: the first is `speeds[0]` times as fast as the
    model says, and so on, over again when there are fewer speeds than engines. With `tells_cached` engines say with
    each answer how much of its prompt was cached, and the router learns from it. With `tells_prefill` prefill engines
    answer as soon as a prompt is computed, as vLLM's and FastDeploy's do; without, when the decode engine has taken it
    over, as SGLang's.
    """

    workers: int = 8
    model: EngineModel = field(default_factory=EngineModel)
    cache_tokens: int = 500_000
    prefill: int = 0
    decode: int = 0
    speeds: Sequence[float] = (1.0,)
    tells_cached: bool = False
    tells_prefill: bool = False

    def __post_init__(self) -> None:
        if bool(self.prefill) != bool(self.decode):
            raise ValueError("prefill and decode engines come together: give both numbers or none")
        if self.workers < 1 or self.prefill < 0 or self.decode < 0 or self.cache_tokens < 1:
            raise ValueError("a fleet needs at least one worker and a cache")
        if not self.speeds or min(self.speeds) <= 0:
            raise ValueError("speeds must be above 0")

    @property
    def roles(self) -> list[Role]:
        """The role of every engine, in order."""
        counts: list[tuple[Role, int]] = [("mixed", self.workers)]
        if self.prefill:
            counts = [("prefill", self.prefill), ("decode", self.decode)]
        return [role for role, count in counts for _ in range(count)]

    def models(self) -> list[EngineModel]:
        """How fast every engine is, in order."""
        speeds = [self.speeds[at % len(self.speeds)] for at in range(len(self.roles))]
        return [self.model if speed == 1.0 else self.model.faster(speed) for speed in speeds]
