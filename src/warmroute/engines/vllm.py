"""vLLM's metrics. Every data-parallel rank has samples of its own (label `engine`); an engine is their sum.

The KV size is told in tokens by newer releases, else as blocks times block size, all of them labels of one info
sample per rank. The usage gauge was renamed from gpu_cache_usage_perc to kv_cache_usage_perc.

The NIXL connector has families of its own, present as soon as it is configured. No other connector is told.
"""

from __future__ import annotations

from warmroute.engines.exposition import Sample, count_label, mean_share, samples, total
from warmroute.engines.vitals import Dialect, Vitals, make_vitals


def _read(page: bytes) -> Vitals:
    ranks = samples(page, "vllm:cache_config_info")
    return make_vitals(
        page,
        "vllm",
        running=total(samples(page, "vllm:num_requests_running")),
        waiting=total(samples(page, "vllm:num_requests_waiting")),
        kv_cache_tokens=sum(_rank_tokens(rank) for rank in ranks) or None,
        free_kv_blocks=_free_blocks(page, ranks),
        kv_connector="NixlConnector" if b"vllm:nixl_" in page else None,
    )


def _rank_tokens(rank: Sample) -> int:
    told = count_label(rank, "kv_cache_size_tokens")
    return told or (count_label(rank, "num_gpu_blocks") or 0) * (count_label(rank, "block_size") or 0)


def _free_blocks(page: bytes, ranks: list[Sample]) -> float | None:
    blocks = sum(count_label(rank, "num_gpu_blocks") or 0 for rank in ranks)
    usage = samples(page, "vllm:kv_cache_usage_perc") or samples(page, "vllm:gpu_cache_usage_perc")
    if not blocks or not usage:
        return None
    return blocks * (1.0 - mean_share(usage))


VLLM = Dialect(b"vllm:", _read)
