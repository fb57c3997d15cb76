"""The option tree. An option exists once, here: flag, variable, YAML key and docs row derive from its field.

Section and key names of the FastDeploy router keep its spelling (kebab-case in YAML and on the command line).
Unlike that router, an explicit 0 means 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from warmroute.config.kv_endpoints import kv_endpoints
from warmroute.config.log_levels import module_levels
from warmroute.config.values import (
    comma_list,
    http_url,
    lower_case,
    networks,
    not_supported,
    numbered_urls,
    origins,
    secrets,
    with_numbers,
    worker_keys,
    worker_urls,
)


@dataclass(frozen=True, slots=True)
class FlagName:
    """The option's name on the command line (and in its variable) where its key alone would be ambiguous."""

    name: str


@dataclass(frozen=True, slots=True)
class FlagAlias:
    """A second name of the option on the command line."""

    name: str


@dataclass(frozen=True, slots=True)
class FileDefault:
    """The default when a configuration file is given that lacks the key: FastDeploy's own."""

    value: str


@dataclass(frozen=True, slots=True)
class Secret:
    """The option's value is shown nowhere: not by `warmroute check`, not in messages, not in logs."""


TextList = Annotated[tuple[str, ...], BeforeValidator(comma_list)]
Origins = Annotated[tuple[str, ...], BeforeValidator(comma_list), AfterValidator(origins)]
Secrets = Annotated[tuple[str, ...], BeforeValidator(comma_list), AfterValidator(secrets), Secret()]
NumberedUrls = Annotated[tuple[str, ...], BeforeValidator(with_numbers), AfterValidator(numbered_urls)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=_kebab,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
    )


class ServerConfig(_Section):
    """What the router listens on and how it treats connections."""

    host: str = Field(default="0.0.0.0", description="Address to listen on.")  # noqa: S104
    port: int | None = Field(
        default=None, ge=0, le=65535, description="Port to listen on; serve requires it. 0: one that is free."
    )
    name: Annotated[str, FlagName("server-name")] = Field(
        default="", description="Accepted for FastDeploy files; not used."
    )
    mode: Annotated[Literal["debug", "release", "test"], FlagName("server-mode")] = Field(
        default="release", description="Accepted for FastDeploy files; not used."
    )
    splitwise: Annotated[bool, FlagAlias("pd")] = Field(
        default=False, description="Prefill/decode disaggregation; --pd is the same, prefill and decode imply it."
    )
    afd: Annotated[bool, AfterValidator(not_supported)] = Field(
        default=False, description="FastDeploy's attention/FFN disaggregation: not supported."
    )
    max_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="Largest request body accepted, in bytes.")
    client_idle_timeout: float = Field(
        default=75.0, ge=0, description="Seconds an idle client connection is kept open."
    )
    upstream_idle_timeout: float = Field(
        default=4.0, ge=0, description="Seconds an idle connection to a worker is kept open."
    )
    client_read_timeout: float = Field(
        default=30.0,
        ge=0,
        description="Seconds a request may take to come (and one more per 1000 bytes), or pause; 0: any.",
    )
    connect_timeout: float = Field(default=2.0, gt=0, description="Seconds a connection to a worker may take.")
    first_byte_timeout: float = Field(
        default=0.0,
        ge=0,
        description="Seconds until the first body byte of an answer; 0: any, since long prompts take long.",
    )
    stream_idle_timeout: float = Field(
        default=120.0, ge=0, description="Seconds of silence within an answer that has begun; 0: any."
    )
    request_timeout: float = Field(
        default=1800.0, ge=0, description="Seconds from a complete request to the end of its answer; 0: any."
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        description="Workers (or pairs) that one request is sent to at most, while its client has nothing.",
    )
    retry_budget: float = Field(
        default=0.2,
        ge=0,
        description="Share of recent requests, at least 10 a second, to try again after a 5xx answer; 0: none.",
    )
    drain_delay: float = Field(
        default=0.0, ge=0, description="Seconds after SIGTERM that are still listened in, while /ready is 503."
    )
    drain_timeout: float = Field(
        default=30.0, ge=0, description="Seconds that running requests have after that; the rest is told and ended."
    )
    cors_allowed_origins: Origins = Field(default=(), description="Origins that browsers may call from; * is any.")


class TopologyConfig(_Section):
    """FastDeploy's etcd topology: understood, refused as not supported."""

    etcd_endpoints: Annotated[TextList, AfterValidator(not_supported)] = Field(default=(), description="Not supported.")
    etcd_prefix: Annotated[str, AfterValidator(not_supported)] = Field(default="", description="Not supported.")


class LogConfig(_Section):
    """What is logged and where to."""

    level: Annotated[
        Literal["debug", "info", "warn", "warning", "error"], BeforeValidator(lower_case), FlagName("log-level")
    ] = Field(default="info", description="Lowest level written.")
    output: Annotated[Literal["", "stdout", "stderr", "file"], BeforeValidator(lower_case), FlagName("log-output")] = (
        Field(default="", description="Where log lines go: stdout, stderr (the default) or file (logs/router.log).")
    )
    access_log: str = Field(
        default="", description="File that gets one JSON line for each inference request, or stdout (off unless set)."
    )
    access_log_prefixes: bool = Field(
        default=False,
        description="Such a line also tells which prompts began alike, by keyed hashes: for warmroute replay.",
    )
    format: Annotated[Literal["auto", "text", "json"], BeforeValidator(lower_case), FlagName("log-format")] = Field(
        default="auto", description="Form of a line; auto: text on a terminal, else JSON."
    )
    levels: Annotated[TextList, AfterValidator(module_levels), FlagName("log-levels")] = Field(
        default=(), description="module=level, ...: parts with a level of their own, as gateway=debug,fleet=warning."
    )
    max_file_mb: Annotated[int, FlagName("log-max-file-mb")] = Field(
        default=100, ge=0, description="MiB after which a log file is moved to router.log.1; 0: never."
    )
    kept_files: Annotated[int, FlagName("log-kept-files")] = Field(
        default=5, ge=1, description="So many moved log files are kept."
    )


class ManagerConfig(_Section):
    """Who the workers are and how their health is judged."""

    worker: Annotated[TextList, AfterValidator(worker_urls)] = Field(
        default=(), description="URL of a mixed worker; may be repeated."
    )
    prefill: NumberedUrls = Field(
        default=(),
        description="URL[,N] of a prefill worker; may be repeated. "
        "N: bootstrap port (SGLang) or connector port (FastDeploy).",
    )
    decode: NumberedUrls = Field(
        default=(), description="URL[,N] of a decode worker; may be repeated. N: connector port (FastDeploy)."
    )
    engine: Annotated[Literal["auto", "fastdeploy", "sglang", "vllm"], BeforeValidator(lower_case)] = Field(
        default="auto",
        description="What engines the workers are. auto: FastDeploy if they register, else as their metrics tell.",
    )
    register_path: str = Field(
        default="",
        description="YAML file with a list `instances:`; from the working directory, else from the configuration's.",
    )
    health_failure_threshold: int = Field(
        default=1, ge=1, description="Failed ticks in a row that make a worker unhealthy."
    )
    health_success_threshold: int = Field(
        default=1, ge=1, description="Passed ticks in a row that make a worker healthy."
    )
    health_check_timeout_secs: float = Field(
        default=5.0, gt=0, description="Seconds a probe or a metrics scrape may take."
    )
    health_check_interval_secs: float = Field(default=5.0, gt=0, description="Seconds between two health ticks.")
    health_check_endpoint: str = Field(default="/health", pattern=r"^/\S*$", description="Path that is probed.")
    breaker_failures: int = Field(
        default=5, ge=0, description="Failed requests in a row that keep a worker from getting more; 0: never."
    )
    breaker_open: float = Field(
        default=10.0, gt=0, description="Seconds until such a worker is tried with one request."
    )
    kv_events_endpoint: Annotated[TextList, AfterValidator(kv_endpoints)] = Field(
        default=(),
        description="[WORKER-URL=]ENDPOINT of KV events, as the engine has it (tcp://*:5557); may be repeated. "
        "Default: vLLM is asked.",
    )
    kv_events_replay_endpoint: Annotated[TextList, AfterValidator(kv_endpoints)] = Field(
        default=(), description="[WORKER-URL=]ENDPOINT of their replays, as the engine has it; may be repeated."
    )
    kv_events_ranks: int = Field(
        default=1, ge=1, le=1024, description="Data-parallel ranks behind such an endpoint, one port each."
    )
    enable_infer_ready_check: bool = Field(
        default=False, description="/ready also sends a one-token request to the workers."
    )


class SchedulerConfig(_Section):
    """How a worker is chosen."""

    policy: Annotated[str, FileDefault("request_num")] = Field(
        default="least_delay", description="Policy of mixed workers; with splitwise, of roles that are given none."
    )
    prefill_policy: Annotated[str, FileDefault("process_tokens")] = Field(
        default="least_delay", description="Policy of prefill workers."
    )
    decode_policy: Annotated[str, FileDefault("request_num")] = Field(
        default="request_num", description="Policy of decode workers."
    )
    pd_min_uncached_tokens: int = Field(
        default=0,
        ge=0,
        description="Fewer prompt tokens than this that a decode worker lacks, it computes itself, if its engine can.",
    )
    pd_decode_alone: Annotated[Literal["auto", "never"], BeforeValidator(lower_case)] = Field(
        default="auto",
        description="Without a usable prefill worker: auto lets decode workers serve alone, if their engine can.",
    )
    preempt_retry_count: int = Field(
        default=3, ge=0, description="New pairs for a request that a FastDeploy engine gives back (pd_reschedule)."
    )
    preempt_retry_exclude_decode: bool = Field(
        default=False, description="Such a request does not return to a decode worker that gave it back."
    )
    strict_models: bool = Field(default=False, description="404 for a model that no worker lists.")
    hit_ratio_weight: float = Field(default=1.0, ge=0, description="Weight of uncached prompt tokens.")
    load_balance_weight: float = Field(default=1.0, ge=0, description="Weight of the worker's load.")
    waiting_weight: float = Field(default=1.0, ge=0, description="Weight of requests waiting in the engine.")
    balance_abs_threshold: float | None = Field(
        default=None,
        ge=0,
        description="Spread of running requests above which process_tokens decides (off unless set).",
    )
    balance_rel_threshold: float | None = Field(
        default=None, ge=0, description="The same spread as a share of the busiest worker (off unless set)."
    )
    cache_block_size: int | None = Field(
        default=None, ge=1, description="Tokens per prefix block; unset: blocks that widen with depth."
    )
    eviction_interval_secs: float = Field(
        default=60.0, ge=0, description="Seconds between two sweeps of expired prefixes."
    )
    eviction_duration_mins: float = Field(
        default=30.0, ge=0, description="Minutes an unused prefix is remembered; 0: for ever."
    )
    worker_cache_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Tokens a worker's KV cache holds (default: what its metrics tell, else 500000).",
    )
    index_max_bytes: int = Field(
        default=256 * 1024 * 1024, ge=0, description="Memory bound of the prefix index, in bytes."
    )
    kv_events: bool = Field(
        default=False,
        description="Follow the KV events of vLLM and SGLang workers: an exact index (needs warmroute[kv-events]).",
    )
    tokenizer: str | None = Field(
        default=None,
        description="Path of a local tokenizer.json (needs warmroute[tokenizer]). Bodies above 1 MB go without.",
    )
    chat_template: str | None = Field(
        default=None,
        description="Chat template for kv-events with a local tokenizer (default: the one beside the tokenizer).",
    )
    tokenizer_url: Annotated[str, AfterValidator(http_url)] = Field(
        default="",
        description="Remote tokenizer; /tokenize is appended if the URL has no path. Bodies above 1 MB go without.",
    )
    tokenizer_timeout_secs: float = Field(default=2.0, gt=0, description="Seconds the tokenizer may take.")
    max_inflight_per_worker: int = Field(
        default=0, ge=0, description="Requests that a worker gets at once; more wait here. 0: any number."
    )
    max_queue: int = Field(default=1000, ge=0, description="Requests that may wait here; others get 429.")
    queue_timeout: float = Field(default=60.0, gt=0, description="Seconds a request may wait here; then it gets 429.")
    stats_interval_secs: float = Field(default=5.0, ge=0, description="Seconds between two [stats] log lines; 0: none.")


class SecurityConfig(_Section):
    """Who may ask for what, and how the router shows who it is. Keys are better given in files or variables: flags can
    be read in the list of processes.
    """

    api_key: Secrets = Field(
        default=(), repr=False, description="Key that inference requests must bring; may be repeated."
    )
    api_key_file: str = Field(default="", description="File with such keys, one a line.")
    api_key_rate: float = Field(
        default=0.0, ge=0, description="Requests per second that each API key may send; others get 429. 0: any number."
    )
    api_key_burst: int = Field(
        default=10, ge=1, description="Requests that a key may send at once after a pause, beside api-key-rate."
    )
    api_key_max_inflight: int = Field(
        default=0, ge=0, description="Requests of each API key that may run at once; others get 429. 0: any number."
    )
    admin_key: Secrets = Field(
        default=(),
        repr=False,
        description="Key for control endpoints that change something; without one, only loopback may call them.",
    )
    admin_key_file: str = Field(default="", description="File with such keys, one a line.")
    allow_registration_from: Annotated[TextList, AfterValidator(networks)] = Field(
        default=("loopback", "private"),
        description="CIDR blocks (or loopback, private, none) from which engines may register without an admin key.",
    )
    worker_key: Annotated[tuple[str, ...], BeforeValidator(comma_list), AfterValidator(worker_keys), Secret()] = Field(
        default=(),
        repr=False,
        description="KEY that the router shows to all workers, or URL=KEY for one of them; may be repeated.",
    )
    worker_key_file: str = Field(default="", description="File with such keys, one a line.")
    tls_cert: str = Field(
        default="", description="Certificate chain (PEM) to serve clients over TLS; read anew when it changes."
    )
    tls_key: str = Field(default="", description="Its private key, if that is in a file of its own.")
    upstream_ca: str = Field(
        default="", description="Authorities (PEM) that vouch for workers at https:// URLs; none: the system's."
    )
    upstream_cert: str = Field(
        default="", description="Certificate chain (PEM) to show these workers; read anew when it changes."
    )
    upstream_key: str = Field(default="", description="Its private key, if that is in a file of its own.")
    upstream_insecure: bool = Field(default=False, description="Believe every certificate of a worker, for tests.")


class TelemetryConfig(_Section):
    """What the router tells of its work beside logs and /metrics."""

    explain: bool = Field(
        default=False,
        description="Every answer tells how its worker was chosen; a request asks with x-warmroute-explain: 1.",
    )
    decisions_kept: int = Field(
        default=200, ge=1, le=100_000, description="So many explained decisions are kept for GET /admin/decisions."
    )
    request_metrics: bool = Field(
        default=True,
        description="Requests are counted by how they ended and timed: for /metrics, the live page and [stats]. "
        "--no-request-metrics saves some CPU time.",
    )
    fastdeploy_metrics: bool = Field(
        default=False, description="/metrics also has the metric names of FastDeploy's router."
    )
    otlp_endpoint: Annotated[str, AfterValidator(http_url)] = Field(
        default="",
        description="Collector for traces, http://host:4318 (needs warmroute[otel]); /v1/traces is appended if the URL "
        "has no path.",
    )
    otlp_sample_ratio: float = Field(
        default=0.01, ge=0, le=1, description="Share of requests that are traced, where the client has not decided."
    )


class Config(_Section):
    """Everything that can be configured."""

    server: ServerConfig = Field(default_factory=ServerConfig)
    topology: TopologyConfig = Field(default_factory=TopologyConfig)
    log: LogConfig = Field(default_factory=LogConfig)
    manager: ManagerConfig = Field(default_factory=ManagerConfig)
    scheduler: SchedulerConfig = Field(default_factory=SchedulerConfig)
    security: SecurityConfig = Field(default_factory=SecurityConfig)
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig)
