"""What can be set on a simulated engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from warmroute.simulation.timing import Timing

Dialect = Literal["fastdeploy", "vllm", "sglang"]
Role = Literal["mixed", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One simulated engine. `port` 0 takes a free one; `router` is HOST:PORT of a router to register with."""

    port: int = 0
    host: str = "127.0.0.1"
    model: str = "simulated"
    dialect: Dialect = "fastdeploy"
    role: Role = "mixed"
    router: str | None = None
    cache_tokens: int = 65_536
    block_size: int = 16
    max_running: int = 64
    speed: float = 1.0
    timing: Timing = field(default_factory=Timing)
    heartbeat_seconds: float = 5.0
