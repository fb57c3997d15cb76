"""What can be set on a simulated engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from warmroute.simulation.timing import Timing

Dialect = Literal["fastdeploy", "vllm", "sglang"]
Role = Literal["mixed", "prefill", "decode"]
KvLoss = Literal["fail", "recompute"]
"""vLLM's kv_load_failure_policy: what becomes of a request whose KV cache does not come."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One simulated engine. `port` 0 takes a free one; `router` is HOST:PORT of a router to register with.
    A stream has its first token at once, then a chunk for each `stream_interval` tokens.

    What follows `heartbeat_seconds` matters to the roles prefill and decode only. `bootstrap_port` is SGLang's and
    `connector_port` FastDeploy's meeting point of the two; 0 takes a free one. `lease_seconds` is how long a prefilled
    KV cache waits for its decode engine, `handover_seconds` how long a decode engine waits for its prefill engine: real
    seconds, whatever the speed.
    """

    port: int = 0
    host: str = "127.0.0.1"
    model: str = "simulated"
    dialect: Dialect = "fastdeploy"
    role: Role = "mixed"
    router: str | None = None
    cache_tokens: int = 65_536
    block_size: int = 16
    max_running: int = 64
    stream_interval: int = 1
    speed: float = 1.0
    timing: Timing = field(default_factory=Timing)
    heartbeat_seconds: float = 5.0
    bootstrap_port: int = 0
    connector_port: int = 0
    lease_seconds: float = 30.0
    handover_seconds: float = 30.0
    on_kv_loss: KvLoss = "fail"
    tp_size: int = 1
    transfer_protocol: tuple[str, ...] = ("rdma",)
    model_version: str = "simulated"
