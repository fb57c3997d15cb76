"""The Prometheus page of a simulated engine, with the names and labels of the engine that it imitates.

Names were taken from the `/metrics` of vLLM 0.32, and from the metrics collectors of SGLang and FastDeploy. Only what a
router reads, and the cache counters that tell how well it routed, are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict

from warmroute.simulation.core import EngineCore
from warmroute.simulation.pd.station import Station
from warmroute.simulation.settings import Dialect, EngineSettings

Sample = tuple[str, str, Mapping[str, str], float]
"""Type, name, further labels, value."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(core: EngineCore, settings: EngineSettings, start_time: float, station: Station | None = None) -> str:
    """The page. `start_time` is the start of the engine in seconds since the epoch."""
    make_samples, labels = _DIALECTS[settings.dialect]
    common = labels(settings)
    samples = list(make_samples(core, settings))
    if station is not None:
        samples += _handovers(station)
        samples += _nixl(core, station) if settings.dialect == "vllm" else ()
    lines: list[str] = []
    for kind, name, further, value in samples:
        declaration = f"# TYPE {name} {kind}"
        if declaration not in lines:
            lines.append(declaration)
        lines.append(f"{name}{_render({**common, **further})} {float(value)}")
    lines.append("# TYPE process_start_time_seconds gauge")
    lines.append(f"process_start_time_seconds {start_time!r}")
    return "\n".join(lines) + "\n"


def _render(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _fastdeploy(core: EngineCore, settings: EngineSettings) -> Iterator[Sample]:
    cache = core.cache
    hit_rate = _share(core.cached_tokens_total, core.prompt_tokens_total)
    yield "gauge", "fastdeploy:num_requests_running", {}, core.running
    yield "gauge", "fastdeploy:num_requests_waiting", {}, len(core.waiting)
    yield "gauge", "fastdeploy:gpu_cache_usage_perc", {}, _share(cache.used, cache.capacity)
    yield "gauge", "fastdeploy:available_gpu_block_num", {}, cache.capacity - cache.used
    yield "gauge", "fastdeploy:free_gpu_block_num", {}, cache.capacity - cache.used - cache.idle
    yield "gauge", "fastdeploy:max_gpu_block_num", {}, cache.capacity
    yield "gauge", "fastdeploy:cache_config_info", {"block_size": str(cache.block_size)}, 1
    yield "gauge", "fastdeploy:max_batch_size", {}, settings.max_running
    yield "gauge", "fastdeploy:hit_token_rate", {}, hit_rate
    yield "counter", "fastdeploy:prompt_tokens_total", {}, core.prompt_tokens_total
    yield "counter", "fastdeploy:prefix_cache_token_num_total", {}, core.cached_tokens_total
    yield "counter", "fastdeploy:generation_tokens_total", {}, core.generated_tokens_total
    yield "counter", "fastdeploy:request_success_total", {}, core.finished_total["stop"] + core.finished_total["length"]


def _vllm(core: EngineCore, settings: EngineSettings) -> Iterator[Sample]:
    cache = core.cache
    config = {
        "block_size": str(cache.block_size),
        "enable_prefix_caching": "True",
        "kv_cache_size_tokens": str(cache.capacity * cache.block_size),
        "num_gpu_blocks": str(cache.capacity),
    }
    yield "gauge", "vllm:num_requests_running", {}, core.running
    yield "gauge", "vllm:num_requests_waiting", {}, len(core.waiting)
    yield "gauge", "vllm:kv_cache_usage_perc", {}, _share(cache.used, cache.capacity)
    yield "counter", "vllm:prefix_cache_queries_total", {}, core.prompt_tokens_total
    yield "counter", "vllm:prefix_cache_hits_total", {}, core.cached_tokens_total
    yield "counter", "vllm:prompt_tokens_total", {}, core.prompt_tokens_total
    yield "counter", "vllm:prompt_tokens_cached_total", {}, core.cached_tokens_total
    yield "counter", "vllm:generation_tokens_total", {}, core.generated_tokens_total
    for reason in ("stop", "length"):
        yield "counter", "vllm:request_success_total", {"finished_reason": reason}, core.finished_total[reason]
    yield "gauge", "vllm:cache_config_info", config, 1


def _sglang(core: EngineCore, settings: EngineSettings) -> Iterator[Sample]:
    cache = core.cache
    yield "gauge", "sglang:num_running_reqs", {}, core.running
    yield "gauge", "sglang:num_queue_reqs", {}, len(core.waiting)
    yield "gauge", "sglang:num_used_tokens", {}, cache.used * cache.block_size
    yield "gauge", "sglang:token_usage", {}, _share(cache.used, cache.capacity)
    yield "gauge", "sglang:max_total_num_tokens", {}, cache.capacity * cache.block_size
    yield "gauge", "sglang:page_size", {}, cache.block_size
    yield "gauge", "sglang:cache_hit_rate", {}, _share(core.cached_tokens_total, core.prompt_tokens_total)
    yield "counter", "sglang:prompt_tokens_total", {}, core.prompt_tokens_total
    yield "counter", "sglang:cached_tokens_total", {}, core.cached_tokens_total
    yield "counter", "sglang:generation_tokens_total", {}, core.generated_tokens_total
    yield "counter", "sglang:num_requests_total", {}, core.finished_total.total()


def _handovers(station: Station) -> Iterator[Sample]:
    """What no real engine tells: whether every KV cache came to where it belongs."""
    yield "gauge", "simulation:kv_held", {}, station.held
    for event, count in asdict(station.counts).items():
        yield "counter", "simulation:kv_handovers_total", {"event": event}, count


def _nixl(core: EngineCore, station: Station) -> Iterator[Sample]:
    """Told by vLLM as soon as the connector is configured."""
    computed = core.prompt_tokens_total - core.cached_tokens_total - core.received_tokens_total
    sources = {
        "local_compute": computed,
        "local_cache_hit": core.cached_tokens_total,
        "external_kv_transfer": core.received_tokens_total,
    }
    for source, tokens in sources.items():
        yield "counter", "vllm:prompt_tokens_by_source_total", {"source": source}, tokens
    yield "counter", "vllm:nixl_num_failed_transfers_total", {}, station.counts.failed
    yield "counter", "vllm:nixl_num_kv_expired_reqs_total", {}, station.counts.expired


def _fastdeploy_labels(settings: EngineSettings) -> dict[str, str]:
    return {}


def _vllm_labels(settings: EngineSettings) -> dict[str, str]:
    return {"engine": "0", "model_name": settings.model}


def _sglang_labels(settings: EngineSettings) -> dict[str, str]:
    engine_type = "unified" if settings.role == "mixed" else settings.role
    return {"engine_type": engine_type, "model_name": settings.model, "pp_rank": "0", "tp_rank": "0"}


_Samples = Callable[[EngineCore, EngineSettings], Iterator[Sample]]
_Labels = Callable[[EngineSettings], dict[str, str]]
_DIALECTS: Mapping[Dialect, tuple[_Samples, _Labels]] = {
    "fastdeploy": (_fastdeploy, _fastdeploy_labels),
    "vllm": (_vllm, _vllm_labels),
    "sglang": (_sglang, _sglang_labels),
}
