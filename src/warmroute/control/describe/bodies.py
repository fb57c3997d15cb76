"""The JSON of the control endpoints as classes, for the description only: the endpoints make their answers themselves.

Forms of FastDeploy's router are kept as they are, odd ones too (numbers that are strings, null for "none").
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from warmroute.fleet.member import MemberState
from warmroute.scheduling.worker import Role

WorkerUrl = Annotated[str, Field(description="http://host:port", examples=["http://10.0.0.7:8000"])]
WorkerId = Annotated[str, Field(description="host:port", examples=["10.0.0.7:8000"])]
Host = Annotated[str, Field(min_length=1, examples=["10.0.0.7"])]
Port = Annotated[int, Field(ge=1, le=65535, examples=[8000])]


class Answer(BaseModel):
    """An answer; it has no other fields than these."""

    model_config = ConfigDict(extra="forbid")


class Done(Answer):
    """It is done."""

    code: Literal[200]
    msg: str = Field(examples=["Register success"])


class ControlProblem(Answer):
    """What the FastDeploy router's endpoints and the worker life cycle answer when something cannot be done."""

    code: int = Field(description="The HTTP status again.", examples=[404])
    msg: str = Field(examples=["unknown worker 10.0.0.7:8000"])


class ProblemDetail(Answer):
    """OpenAI's error object."""

    message: str
    type: str = Field(examples=["invalid_request_error"])
    param: str | None
    code: str | None


class Problem(Answer):
    """What all other endpoints answer when something cannot be done."""

    error: ProblemDetail


class Registration(BaseModel):
    """What an engine tells of itself, also as its heartbeat. Ports may be strings; other fields are ignored."""

    role: Literal["mixed", "prefill", "decode"] | Literal[0, 1, 2] = Field(examples=["mixed"])
    host_ip: Host
    port: Port
    connector_port: int | None = None
    bootstrap_port: int | None = None
    engine_worker_queue_port: int | None = None
    transfer_protocol: list[str] | None = Field(default=None, examples=[["ipc", "rdma"]])
    rdma_ports: list[str] | None = None
    device_ids: list[str] | None = None
    metrics_port: int | None = None
    tp_size: int | None = None
    version: str | None = Field(default=None, description="The version of the model.")
    is_paused: bool = Field(default=False, description="True keeps new requests away.")


class Instance(Answer):
    """A registered worker; ports are strings, empty when not told."""

    url: WorkerUrl
    worker_type: Role
    connector_port: str
    engine_worker_queue_port: str
    transfer_protocol: list[str]
    rdma_ports: list[str]
    device_ids: list[str]
    metrics_port: str
    tp_size: int


class Registered(Answer):
    """The healthy workers by role."""

    code: Literal[200]
    msg: Literal["success"]
    mixed: list[Instance]
    prefill: list[Instance]
    decode: list[Instance]


class RegisteredNumber(Answer):
    """How many healthy workers there are."""

    mixed: int
    prefill: int
    decode: int


class DecodeInstance(Answer):
    """A decode worker as FastDeploy's prefill engines want it; ports are strings, "0" when not told."""

    role: Literal["DECODE"]
    host_ip: str
    port: str
    metrics_port: str
    connector_port: str
    engine_worker_queue_port: str
    transfer_protocol: list[str]
    rdma_ports: list[str]
    device_ids: list[str]
    tp_size: int
    is_paused: bool
    version: str | None


class Health(Answer):
    """The router is up."""

    code: Literal[200]
    status: Literal["ok"]


class Readiness(Answer):
    """Whether a worker, or a pair of them, can serve."""

    code: Literal[200, 503]
    infer_ready: bool


class Unhealthy(Answer):
    """A worker that did not pass its probe."""

    url: WorkerUrl
    reason: str


class ProbeReport(Answer):
    """What probing every worker has shown; `unhealthy` is there with 503."""

    code: Literal[200, 503]
    msg: str = Field(examples=["Health check complete"])
    unhealthy: list[Unhealthy] = []


class EngineFigures(Answer):
    """What an engine last told of itself; the router's own count where it told nothing."""

    num_requests_running: int
    num_requests_waiting: int
    available_gpu_block_num: int


class EngineMetrics(Answer):
    """The engines' figures by URL."""

    code: Literal[200]
    metrics: dict[str, EngineFigures]
    is_queueing: bool = Field(description="Whether requests wait in any engine.")
    pending_request_count: int = Field(description="Requests that wait in the router.")


class ModelCard(BaseModel):
    """A model, as the engine that serves it describes it."""

    id: str
    model_config = ConfigDict(extra="allow")


class Models(Answer):
    """OpenAI's list."""

    object: Literal["list"]
    data: list[ModelCard]


class WorkerEntry(Answer):
    """One worker of the fleet."""

    id: WorkerId
    url: WorkerUrl
    role: Role
    state: MemberState
    breaker: Literal["closed", "open", "half_open", "trying"]
    stuck: bool = Field(description="Whether it begins no answers while others do.")
    running: int = Field(description="Requests under way.")
    pending_prefill_tokens: int
    dialect: str | None = Field(description="fastdeploy, sglang, vllm, or null while that is not known.")
    models: list[str]
    source: Literal["static", "added", "registered"]


class Workers(Answer):
    """All workers, sorted by id."""

    code: Literal[200]
    msg: Literal["success"]
    workers: list[WorkerEntry]


class ChangedWorker(WorkerEntry):
    """The worker as it is now."""

    code: Literal[200]
    msg: Literal["success"]


class NewWorker(BaseModel):
    """A worker to be added; it need not be up yet."""

    url: WorkerUrl
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    bootstrap_port: int = Field(default=0, ge=0, le=65535)


class NamedByUrl(BaseModel):
    """A worker by its URL."""

    url: WorkerUrl


class NamedByAddress(BaseModel):
    """A worker by host and port."""

    host_ip: Host
    port: Port


class Draining(Answer):
    """No new requests go there."""

    code: Literal[200]
    msg: Literal["draining"]
    running: int = Field(description="Requests that are still under way.")


class AbortSome(BaseModel):
    """Requests to be aborted."""

    req_ids: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1, examples=[["chatcmpl-1"]])


class AbortAll(BaseModel):
    """Abort whatever runs."""

    abort_all: Literal[True]


class AbortFailure(Answer):
    """A worker that did not take the order."""

    server: WorkerUrl
    error: str


class AbortResult(Answer):
    """All workers' lists together; `aborted` holds what the engines say, ids or objects with an id."""

    aborted: list[Any]
    not_found: list[str]
    errors: list[AbortFailure] = []


class AbortReply(Answer):
    """The engines' own form; 502 and "error" when no worker took the order."""

    request_id: str = Field(examples=["control-5f0c"])
    status: Literal["success", "error"]
    error: str | None
    result: AbortResult


class BadAbort(Answer):
    """The order does not say what to abort (a text, as FastDeploy has it), or is no JSON."""

    error: str | ProblemDetail = Field(examples=["must provide abort_all=true or req_ids"])
