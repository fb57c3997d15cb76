"""What the admin endpoints answer with. These classes are both what is sent and what the API's description says."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from warmroute.fleet.member import MemberState
from warmroute.scheduling.worker import Role


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkerView(_Answer):
    """One worker. Shares are 0 to 1, times are seconds; what is said of requests is of the last minute."""

    id: str = Field(description="host:port", examples=["10.0.0.7:8000"])
    url: str = Field(examples=["http://10.0.0.7:8000"])
    role: Role
    state: MemberState
    breaker: str = Field(description="closed, open, half_open or trying.")
    stuck: bool = Field(description="Whether it begins no answers while others do.")
    can_be_chosen: bool = Field(description="Whether new requests may go there.")
    running: int = Field(description="Requests under way.")
    pending_prefill_tokens: int = Field(description="Uncached prompt tokens sent there, no answer begun.")
    requests_per_second: float
    hit_share: float | None = Field(
        description="Share of its prompt tokens that it was believed to hold already; null: it was given no prompt."
    )
    ttft_seconds: float | None = Field(description="Mean time to first token; null: nothing was answered.")
    known_prefix_tokens: int = Field(description="Tokens it is believed to hold.")
    cache_tokens: int = Field(description="Tokens that its KV cache is taken to have room for.")
    dialect: str | None = Field(description="fastdeploy, sglang, vllm, or null while that is not known.")
    models: list[str]
    source: str = Field(description="static, added or registered.")


class Totals(_Answer):
    """The fleet at this moment; rates, shares and times are of the last sample (five seconds)."""

    workers: int
    routable: int = Field(description="Workers that may get new requests.")
    running: int
    queued: int = Field(description="Requests that wait in the router for a place on a worker.")
    pending_prefill_tokens: int
    requests_per_second: float
    errors_per_second: float
    hit_share: float | None
    ttft_p50_seconds: float | None
    ttft_p99_seconds: float | None


class PrefixFlow(_Answer):
    """Prompts that begin alike, and where they went lately."""

    prefix: str | None = Field(description="A name for what they begin with (a hash); null: all the others together.")
    tokens: dict[str, int] = Field(description="Prompt tokens by worker id.")


class RouterState(_Answer):
    """The router at this moment."""

    version: str
    time: float = Field(description="Unix seconds.")
    uptime_seconds: float
    mode: str = Field(description="mixed, or splitwise for prefill and decode workers.")
    policies: dict[str, str] = Field(description="The policy of each role that is served.")
    can_serve: bool = Field(description="Whether a request that came now would find workers.")
    totals: Totals
    workers: list[WorkerView] = Field(description="Sorted by role and id.")
    flows: list[PrefixFlow] = Field(description="Where prompts go: a sample, largest first.")


class HistorySample(_Answer):
    """What happened in the seconds before `time`; null where there was nothing to measure."""

    time: float = Field(description="Unix seconds.")
    requests_per_second: float = Field(description="Requests that ended.")
    errors_per_second: float = Field(description="Those of them with a status of 500 or more.")
    ttft_p50_seconds: float | None = Field(description="Estimated from the histogram's buckets.")
    ttft_p99_seconds: float | None
    hit_share: float | None
    running: int


class RouterHistory(_Answer):
    """The last 15 minutes, oldest first."""

    interval_seconds: float
    samples: list[HistorySample]
